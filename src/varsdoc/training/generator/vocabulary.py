"""Hand-made lists of what documents talk about: people, places, organisations, and the jargon of a few trades.

Each trade has subjects (noun phrases), verbs, adjectives, measures (what tables and charts count, with a unit) and row
names. The frequency list in lexicon.txt.gz supplies everything else.
"""

from __future__ import annotations

from dataclasses import dataclass


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.replace("\n", " ").split("|") if part.strip())


FIRST = _words("""James|Mary|Robert|Patricia|John|Linda|Michael|Barbara|William|Elizabeth|David|Susan|Richard|Jessica|
Joseph|
Karen|Thomas|Sarah|Charles|Nancy|Daniel|Lisa|Matthew|Betty|Anthony|Helen|Donald|Sandra|Paul|Ashley|Steven|Donna|Andrew|
Carol|Kenneth|Ruth|George|Sharon|Joshua|Michelle|Kevin|Laura|Brian|Amanda|Edward|Melissa|Ronald|Deborah|Timothy|
Stephanie|
Raj|Priya|Sunil|Anita|Wei|Mei|Hiroshi|Yuki|Carlos|Maria|Jose|Ana|Ahmed|Fatima|Omar|Leila|Ivan|Olga|Pierre|Claire|Hans|
Greta|Lars|Ingrid|Kofi|Amara|Stewart|Harold|Walter|Eugene|Ralph|Norman|Gladys|Mildred|Vernon|Lester""")
LAST = _words("""Smith|Johnson|Williams|Brown|Jones|Garcia|Miller|Davis|Rodriguez|Martinez|Hernandez|Lopez|Wilson|
Anderson|
Thomas|Taylor|Moore|Jackson|Martin|Lee|Perez|Thompson|White|Harris|Sanchez|Clark|Ramirez|Lewis|Robinson|Walker|Young|
Allen|
King|Wright|Scott|Torres|Nguyen|Hill|Flores|Green|Adams|Nelson|Baker|Hall|Rivera|Campbell|Mitchell|Carter|Roberts|Patel|
Sharma|Gupta|Khan|Ramamurthy|Chen|Wang|Tanaka|Suzuki|Schmidt|Fischer|Weber|Dubois|Moreau|Rossi|Bianchi|Ivanov|Petrov|
Kowalski|Novak|Andersson|Nielsen|O'Brien|Murphy|MacDonald|Fraser|Okafor|Mensah|Haddad|Cohen|Levy|Darby|Lushbough|Shanks|
Hutchings|Whitfield|Pemberton|Ashworth|Blackwood|Carmichael|Stahmann|Goldsmith|Burnett|Quigley""")
CITY = _words("""New York|Chicago|St. Louis|Atlanta|Boston|Houston|Denver|Richmond|Winston-Salem|Louisville|Kansas City|
Washington|Philadelphia|San Francisco|Los Angeles|Seattle|Minneapolis|Cleveland|Detroit|Pittsburgh|Baltimore|Raleigh|
London|Manchester|Paris|Lyon|Berlin|Munich|Hamburg|Geneva|Zurich|Vienna|Rome|Milan|Madrid|Barcelona|Lisbon|Amsterdam|
Brussels|Copenhagen|Stockholm|Oslo|Helsinki|Warsaw|Prague|Budapest|Athens|Istanbul|Cairo|Nairobi|Lagos|Accra|Mumbai|
Kolkata|Bangalore|Chennai|New Delhi|Karachi|Dhaka|Bangkok|Singapore|Jakarta|Manila|Hong Kong|Shanghai|Beijing|Seoul|
Tokyo|
Osaka|Sydney|Melbourne|Auckland|Toronto|Montreal|Vancouver|Mexico City|Bogota|Lima|Santiago|Buenos Aires|Sao Paulo""")
STATE = _words("NY|IL|MO|GA|MA|TX|CO|VA|NC|KY|DC|PA|CA|WA|MN|OH|MI|MD|FL|TN|AL|NJ|CT|WI|IA|KS|NE|OR|AZ|NM|SC|LA")
STREET = _words("""Main|Park|Oak|Pine|Maple|Cedar|Elm|Washington|Lake|Hill|Walnut|Spring|North|Ridge|Church|Willow|Mill|
Sunset|Railroad|Jackson|River|Highland|Forest|Chestnut|Fifth|York|Manchester|Franklin|Commerce|Industrial|University""")
COUNTRY = _words("""United States|China|Japan|Germany|United Kingdom|France|India|Italy|Brazil|Canada|South Korea|
Russia|
Australia|Spain|Mexico|Indonesia|Netherlands|Turkey|Switzerland|Poland|Sweden|Belgium|Argentina|Norway|Austria|Nigeria|
Israel|Ireland|South Africa|Denmark|Singapore|Malaysia|Philippines|Colombia|Chile|Finland|Egypt|Czechia|Romania|Vietnam|
Bangladesh|Portugal|New Zealand|Greece|Peru|Hungary|Ukraine|Kenya|Ethiopia|Morocco|Slovakia|Ecuador|Ghana|Tanzania|
Iceland|
Luxembourg|Croatia|Tunisia|Bolivia|Uruguay|Nepal|Cambodia|Estonia|Latvia|Lithuania|Slovenia|Zambia|Senegal|Rwanda|
Djibouti|
Iran|Iraq|Saudi Arabia|Pakistan|Thailand|Sri Lanka|Cuba|Panama|Costa Rica|Guatemala|Jamaica|Uganda|Angola|Mozambique|
Bulgaria|Serbia|Montenegro|Bosnia and Herzegovina|North Macedonia|Albania|Kosovo|Moldova|Belarus|Georgia|Armenia|
Azerbaijan|
Kazakhstan|Uzbekistan|Kyrgyzstan|Tajikistan|Turkmenistan|Mongolia|Afghanistan|Syria|Lebanon|Jordan|Yemen|Oman|Qatar|
Kuwait|
Bahrain|United Arab Emirates|Libya|Algeria|Sudan|South Sudan|Chad|Niger|Mali|Mauritania|Guinea|Sierra Leone|Liberia|
Ivory Coast|Burkina Faso|Togo|Benin|Cameroon|Gabon|Congo|Burundi|Malawi|Zimbabwe|Botswana|Namibia|Lesotho|Eswatini|
Madagascar|Mauritius|Seychelles|Comoros|Eritrea|Somalia|Gambia|Cape Verde|Myanmar|Laos|Brunei|Bhutan|Maldives|Taiwan|
Hong Kong|Macao|North Korea|Papua New Guinea|Fiji|Samoa|Tonga|Vanuatu|Solomon Islands|Kiribati|Haiti|
Dominican Republic|Honduras|Nicaragua|El Salvador|Belize|Venezuela|Guyana|Suriname|Paraguay|Barbados|
Trinidad and Tobago|Bahamas|Grenada|Saint Lucia|Puerto Rico|Bermuda|Greenland|Cyprus|Malta|Andorra|
Liechtenstein|Monaco|San Marino""")
STATE_NAME = _words("""Alabama|Alaska|Arizona|Arkansas|California|Colorado|Connecticut|Delaware|Florida|Georgia|Hawaii|
Idaho|
Illinois|Indiana|Iowa|Kansas|Kentucky|Louisiana|Maine|Maryland|Massachusetts|Michigan|Minnesota|Mississippi|Missouri|
Montana|Nebraska|Nevada|New Hampshire|New Jersey|New Mexico|New York|North Carolina|North Dakota|Ohio|Oklahoma|Oregon|
Pennsylvania|Rhode Island|South Carolina|South Dakota|Tennessee|Texas|Utah|Vermont|Virginia|Washington|West Virginia|
Wisconsin|Wyoming""")
REGION = _words("""Europe|North America|Latin America|Asia Pacific|Middle East|Africa|Sub-Saharan Africa|Western Europe|
Eastern Europe|Northeast|Midwest|South|West|East Asia|South Asia|Central Asia|Oceania|EMEA|Rest of World|Americas""")
COMPANY_HEAD = _words("""Northern|Consolidated|Great Western|American|National|General|United|Pacific|Atlantic|
Continental|
Allied|Universal|Imperial|Royal|Global|First|Central|Midland|Summit|Pioneer|Liberty|Sterling|Apex|Vector|Orion|Helix|
Meridian|Crown|Harbor|Evergreen|Falcon|Granite|Horizon|Keystone|Lakeside|Monarch|Nova|Quantum|Redwood|Titan|Vanguard""")
COMPANY_CORE = _words("""Tobacco|Chemical|Sugar|Foods|Pharmaceuticals|Laboratories|Steel|Paper|Motors|Airlines|
Insurance|
Petroleum|Textiles|Electric|Research|Nutrition|Brands|Beverages|Dairy|Packaging|Mining|Energy|Software|Bank|Holdings|
Publishing|Hotels|Logistics|Biotech|Seeds|Instruments|Plastics|Cement|Media|Capital|Systems|Foundry|Mills""")
COMPANY_TAIL = _words(
    "Inc.|Company|Corporation|Ltd.|Limited|LLC|Group|& Co.|International|Industries|Association|plc|AG"
)
BODY = _words("""Institute|Foundation|Council|Committee|Department|Bureau|Board|University|Society|Center|Office|Agency|
Commission|Ministry|Hospital|Federation""")
JOB = _words("""Director|President|Vice President|Senior Vice President|Chairman|Secretary|Treasurer|General Manager|
Managing Director|Chief Executive Officer|Chief Financial Officer|Project Manager|Research Director|Medical Director|
Sales Manager|Marketing Manager|Principal Investigator|Editor|Company Secretary|Deputy Director|Head of Operations|
Brand Manager|Professor|Associate Professor|Account Executive|Study Director|Auditor|Chief Engineer|Plant Manager""")
MONTH = _words("January|February|March|April|May|June|July|August|September|October|November|December")
ANSWER_SCALES = (
    _words("Very satisfied|Somewhat satisfied|Neither|Somewhat dissatisfied|Very dissatisfied"),
    _words("Strongly agree|Agree|Disagree|Strongly disagree|Don't know"),
    _words("Too much|About right|Too little"),
    _words("Major threat|Minor threat|Not a threat"),
    _words("Good|Bad|No opinion"),
    _words("Favorable|Unfavorable"),
    _words("Very important|Somewhat important|Not too important|Not at all important"),
    _words("A lot|Some|Not much|Nothing at all"),
    _words("Approve|Disapprove|Unsure"),
    _words("Yes|No|Not sure"),
    _words("Daily|Weekly|Monthly|Rarely|Never"),
    _words("Increase|Stay the same|Decrease"),
    _words("Definitely yes|Rather yes|Rather not|Definitely not|Difficult to say"),
)
GROUPS = (
    _words("18-29|30-49|50-64|65+"),
    _words("Men|Women"),
    _words("White|Black|Hispanic|Asian"),
    _words("Rep/Lean Rep|Dem/Lean Dem|Independent"),
    _words("College grad+|Some college|HS or less"),
    _words("Urban|Suburban|Rural"),
    _words("Total|Men|Women|18-29|30-49|50-64|65+"),
    _words("Under 15 years|15-24 years|25-54 years|55-64 years|65 and older"),
    _words("Agriculture|Industry|Services"),
    _words("Low income|Lower middle income|Upper middle income|High income|World"),
    _words("Q1|Q2|Q3|Q4"),
    _words("Online|Retail stores|Wholesale|Direct sales|Other"),
)
PUBLISHER = _words("""Pew Research Center|Our World in Data|Statista|World Bank|Eurostat|OECD|UN Population Division|
Gallup|
IMF|WHO|FAO|International Energy Agency|Census Bureau|Bureau of Labor Statistics|Reuters|National Statistics Office|
Company annual report|Industry Documents Library|Survey of consumers|Federal Reserve|Ministry of Finance""")


@dataclass(frozen=True)
class Trade:
    name: str
    subjects: tuple[str, ...]
    verbs: tuple[str, ...]
    adjectives: tuple[str, ...]
    measures: tuple[tuple[str, str], ...]
    rows: tuple[str, ...]


def _measures(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((name.strip(), unit.strip()) for name, _, unit in (part.partition("@") for part in _words(text)))


TRADES = (
    Trade(
        "tobacco",
        _words("""cigarette brand|menthol specification|filter tip|tobacco blend|nicotine delivery|smoking behavior|
tar level|
leaf purchase|consumer panel|sales territory|point of sale display|smoker segment|burley tobacco|flue-cured leaf|
sample web|
retail promotion|carton coupon|smoke analysis|reconstituted sheet|test market|brand switching study|package design"""),
        _words("increase|reduce|blend|test|deliver|purchase|promote|compare|smoke|measure|replace|introduce|withdraw"),
        _words("menthol|low-tar|king size|unfiltered|experimental|regular|domestic|premium|smooth|flavored|cured"),
        _measures("""Tar@mg|Nicotine@mg|Puff count@puffs|Market share@%|Sales volume@million units|Moisture@%|
Carbon monoxide@mg|Filter efficiency@%|Pressure drop@mm|Share of smokers@%|Carton price@$"""),
        _words("""Control|Sample A|Sample B|Menthol 100|Full Flavor|Lights|Ultra Lights|King Size|Filter 85|Burley|
Turkish|
Virginia|Reconstituted|Stems|Casing|Non-smokers|Smokers|Former smokers"""),
    ),
    Trade(
        "medicine",
        _words("""clinical trial|patient group|adverse reaction|blood pressure|calcium supplement|vitamin intake|
dose level|
control subject|serum cholesterol|body weight|protein diet|bone density|estrogen therapy|toxicity study|placebo group|
treatment period|iron deficiency|infant formula|metabolic unit|laboratory animal|dietary allowance|case report|
follow-up visit"""),
        _words("treat|observe|examine|administer|randomize|monitor|diagnose|prescribe|evaluate|assess|recover|feed"),
        _words(
            "clinical|chronic|acute|daily|oral|malnourished|pediatric|elderly|healthy|diabetic|hypertensive|baseline"
        ),
        _measures("""Calories@kcal|Protein@g|Calcium@mg|Iron@mg|Vitamin A@I.U.|Thiamine@mg|Ascorbic acid@mg|Dose@mg/kg|
Mortality@%|Body weight@kg|Height@cm|Patients@n|Serum cholesterol@mg/dL|Mean age@years|Prevalence@%|Hemoglobin@g/dL"""),
        _words("""Sedentary|Physically active|Pregnancy|Lactation|Placebo|Treated|Low dose|High dose|Men|Women|Boys|
Girls|
Infants|Hypertension|Diabetes|Current smoking|Family history|Subject J.W.|Subject S.D.|Rats|Mice|Control group"""),
    ),
    Trade(
        "finance",
        _words("""operating income|annual report|share capital|dividend payment|interest expense|cash flow|
balance sheet|
tax provision|credit facility|board meeting|audit committee|stock option|working capital|pension plan|
capital expenditure|
exchange rate|fiscal year|net profit|current liability|fixed asset|insurance premium|foreign subsidiary|bond issue"""),
        _words("report|approve|invest|finance|repay|declare|audit|acquire|allocate|increase|decline|exceed|amortize"),
        _words("consolidated|net|gross|deferred|quarterly|unaudited|current|previous|fiscal|long-term|diluted|accrued"),
        _measures("""Net sales@$ million|Operating income@$ million|Revenue@million U.S. dollars|Net income@$ million|
Earnings per share@$|Total assets@$ million|Interest expense@$ thousand|Dividends@Rs. in lacs|Gross margin@%|
Headcount@employees|
Return on equity@%|Capital expenditure@million euros|Cost of sales@$ million|Tax rate@%"""),
        _words("""Salaries, wages and bonus|Contribution to provident funds|Gratuity|Power and fuel|Rent|
Rates and taxes|
Insurance|Repairs to machinery|Raw materials|Packing materials|Stores and spares|Sundries|Depreciation|Advertising|
Freight|
Travelling expenses|Directors' fees|Legal fees|Other income|Total|Interest|Current assets|Inventories|Goodwill"""),
    ),
    Trade(
        "industry",
        _words("""sugar factory|pulp mill|production line|boiler house|quality control|packing machine|raw juice|
beet yield|
maintenance schedule|safety procedure|conveyor belt|plant capacity|storage tank|cooling tower|test specimen|steel sheet|
waste water|spare part|procedure note|material specification|purchase order|shipping container|assembly unit|
energy audit"""),
        _words("install|operate|inspect|repair|produce|ship|store|calibrate|process|assemble|maintain|weigh|dry"),
        _words(
            "technical|automatic|hydraulic|stainless|thermal|mechanical|electrical|standard|spare|defective|raw|rated"
        ),
        _measures("""Output@tons|Temperature@°C|Pressure@psi|Yield@tons per acre|Energy use@kWh|Downtime@hours|
Moisture@%|
Capacity@barrels|Viscosity@cP|Weight@lbs|Speed@rpm|Rejects@%|Water use@gal|Emissions@kt CO2|Steam@lb/hr"""),
        _words("""Line 1|Line 2|Boiler No. 3|Night shift|Day shift|Warehouse|Bearing, roller|Gasket|Valve assembly|
Pump housing|
Drive belt|Beet pulp|Molasses|White sugar|Raw sugar|Limestone|Coke|Sulphur|Caustic soda|Hydrochloric acid|Ethanol|
Benzene"""),
    ),
    Trade(
        "society",
        _words("""unemployment rate|public opinion|school enrollment|news media|social network|climate policy|
health insurance|
immigration law|internet access|life expectancy|urban population|renewable energy|military spending|voter turnout|
birth rate|
income inequality|gender gap|working parent|religious group|trust in government|mobile phone|college degree|
rural household"""),
        _words("support|oppose|believe|trust|vote|prefer|worry|expect|use|visit|spend|agree|consider|favor"),
        _words("global|national|public|young|older|foreign|economic|political|religious|digital|average|annual|likely"),
        _measures("""Share of respondents@%|Unemployment rate@%|Life expectancy@years|GDP per capita@U.S. dollars|
Population@millions|
Inflation rate@%|Share of adults@%|Fertility rate@births per woman|CO2 emissions@million tonnes|Internet users@millions|
Number of deaths@thousands|Voter turnout@%|Share of GDP@%|Energy consumption@TWh|Monthly active users@millions|
Sales@billion U.S. dollars|
Suicide rate@per 100,000|Average age at marriage@years|Employment rate@%|Number of visitors@thousands|
Market share@%"""),
        _words("""The military|Scientists|The news media|Business leaders|Elected officials|Religious leaders|
Journalists|
Smartphone|Laptop|Tablet|Facebook|YouTube|Instagram|Twitter|Television|Radio|Print newspapers|Email|Online banking|
Solar|Wind|Coal|Nuclear|Natural gas|Oil|Hydropower|Terrorism|Climate change|Cyberattacks|Infectious disease|Poverty"""),
    ),
    Trade(
        "science",
        _words("""neural network|language model|data set|error rate|learning rate|random variable|convergence proof|
test accuracy|
image retrieval|gene expression|protein structure|magnetic field|quantum state|particle detector|sample size|
regression model|
loss function|graph algorithm|memory cache|compiler pass|distributed system|soil sample|wave equation|lower bound"""),
        _words(
            "propose|train|evaluate|prove|observe|estimate|improve|outperform|compute|sample|converge|predict|encode"
        ),
        _words(
            "linear|stochastic|optimal|sparse|supervised|efficient|novel|empirical|Bayesian|robust|parallel|discrete"
        ),
        _measures("""Accuracy@%|F1 score@|Recall@%|Error rate@%|Latency@ms|Throughput@pages/s|Parameters@M|
Training time@hours|
Memory@GB|Perplexity@|NDCG@|Temperature@K|Frequency@GHz|Concentration@mol/L|p-value@|Runtime@s"""),
        _words("""Baseline|Ours|Ours (large)|Random|Linear probe|Transformer|LSTM|CNN|BM25|Ridge|SVM|k-NN|Ablation|
w/o warm-up|Full model|Oracle|Human|Small|Base|Large|Pretrained|Scratch|Hybrid"""),
    ),
)
