#!/bin/sh
# Collect free Latin fonts from Debian packages into a folder, for the page generator.
#
#     pip install fonttools && sh scripts/collect_fonts.sh fonts
#
# Packages are downloaded and unpacked, not installed: the system's font set stays as it is. What is copied is cut to
# Latin by fontTools where pip can supply it, so that some four hundred files stay under 20 MB. Every package is in Debian main
# (OFL, Apache, GPL with font exception, or public domain); the fonts are input to training and are never committed.
set -eu
mkdir -p "${1:?usage: sh scripts/collect_fonts.sh FOLDER [PYTHON]}"
target=$(cd "$1" && pwd)  # of here: the work is done in another folder
python=${2:-python3}
here=$(cd "$(dirname "$0")" && pwd)
packages="
fonts-dejavu-core fonts-dejavu-extra fonts-liberation fonts-liberation2 fonts-lato fonts-roboto-unhinted fonts-roboto-slab
fonts-open-sans fonts-noto-core fonts-noto-mono fonts-ebgaramond fonts-linuxlibertine fonts-lmodern fonts-texgyre
fonts-courier-prime fonts-urw-base35 fonts-croscore fonts-crosextra-caladea fonts-crosextra-carlito fonts-cmu
fonts-stix fonts-freefont-otf fonts-gnutypewriter fonts-inter fonts-inconsolata fonts-hack-ttf fonts-firacode
fonts-jetbrains-mono fonts-anonymous-pro fonts-fantasque-sans fonts-cantarell fonts-cabin fonts-clear-sans
fonts-comic-neue fonts-dosis fonts-quicksand fonts-comfortaa fonts-play fonts-oxygen fonts-paratype fonts-sil-gentium
fonts-sil-gentiumplus fonts-sil-charis fonts-sil-andika fonts-junicode fonts-cardo fonts-oldstandard fonts-vollkorn
fonts-goudybookletter fonts-fanwood fonts-prociono fonts-quattrocento fonts-arapey fonts-lindenhill fonts-century-catalogue
fonts-adf-accanthis fonts-adf-baskervald fonts-adf-berenis fonts-adf-gillius fonts-adf-ikarius fonts-adf-irianis
fonts-adf-libris fonts-adf-mekanus fonts-adf-oldania fonts-adf-romande fonts-adf-switzera fonts-adf-tribun
fonts-adf-universalis fonts-adf-verana fonts-averia-gwf fonts-averia-sans-gwf fonts-averia-serif-gwf fonts-b612
fonts-bebas-neue fonts-karla fonts-manrope fonts-sora fonts-league-spartan fonts-league-mono fonts-national-park
fonts-junction fonts-jura fonts-allerta fonts-tuffy fonts-ubuntu-title fonts-yanone-kaffeesatz fonts-yrsa-rasa
fonts-compagnon fonts-elstob fonts-essays1743 fonts-isabella fonts-joscelyn fonts-gfs-artemisia fonts-gfs-bodoni-classic
fonts-gfs-didot fonts-gfs-neohellenic fonts-go fonts-monofur fonts-mononoki fonts-agave fonts-hermit fonts-3270
fonts-ocr-a fonts-ocr-b fonts-tlwg-typewriter-otf fonts-tlwg-typist-otf fonts-tlwg-typo-otf fonts-tlwg-mono-otf
fonts-tlwg-laksaman-otf fonts-tlwg-kinnari-otf fonts-tlwg-umpush-otf fonts-opendin fonts-osifont fonts-routed-gothic
fonts-roadgeek fonts-tiresias fonts-opendyslexic fonts-dancingscript fonts-kaushanscript fonts-kristi fonts-lobster
fonts-lobstertwo fonts-leckerli-one fonts-dkg-handwriting fonts-breip fonts-femkeklaver fonts-rufscript fonts-humor-sans
fonts-tomsontalks fonts-summersby fonts-okolaks fonts-beteckna fonts-eurofurence fonts-georgewilliams fonts-dustin
fonts-sjfonts fonts-levien-typoscript fonts-levien-museum fonts-gotico-antiqua fonts-millimetre fonts-inter-variable
fonts-ecolier-court fonts-uralic fonts-cegui fonts-libfinal fonts-engadget fonts-blankenburg fonts-klaudia-berenika
fonts-smc-manjari fonts-sil-galatia fonts-thai-tlwg-otf fonts-glasstty fonts-ldco
"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# One call for all: each reads the package lists anew. A name that this Debian release lacks is not a reason to stop.
apt-cache pkgnames fonts- >known
found=""
for package in $packages; do
    if grep -qx "$package" known; then found="$found $package"; else echo "not found: $package" >&2; fi
done
# shellcheck disable=SC2086
apt-get download -q $found >/dev/null 2>&1 || echo "some packages could not be downloaded" >&2
mkdir unpacked
for deb in ./*.deb; do
    dpkg-deb -x "$deb" "unpacked/$(basename "$deb" .deb)" 2>/dev/null || echo "not unpacked: $deb" >&2
done
"$python" "$here/subset_fonts.py" unpacked "$target"
