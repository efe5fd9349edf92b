"""The report: one self-contained HTML file. Every table says data, model hash, token cap, codec and command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from varsdoc.evaluation.published import AGGREGATION, AGREEMENT, OPTIMISATION
from varsdoc.evaluation.report.plots import Point, bars, differences, histogram, scatter
from varsdoc.evaluation.results import place

STYLE = """
:root{color-scheme:light}
body{font:15px/1.5 system-ui,sans-serif;color:#24282e;background:#fff;max-width:1020px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.2rem;border-bottom:1px solid #dfe3e8}h3{font-size:1rem}
table{border-collapse:collapse;margin:.6rem 0;display:block;overflow-x:auto}
th,td{padding:.28rem .7rem;border-bottom:1px solid #e6e9ed;text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}thead th{background:#f4f6f8}
caption,.note{color:#59616b;font-size:.86rem;text-align:left;caption-side:bottom}
.published{color:#59616b;font-style:italic}.plots{display:flex;flex-wrap:wrap;gap:1rem}
.plots svg{width:460px;max-width:100%;height:auto}
.examples{display:grid;grid-template-columns:repeat(auto-fill,minmax(230px,1fr));gap:1rem}
.examples figure{margin:0;border:1px solid #dfe3e8;border-radius:6px;padding:.6rem;font-size:.86rem}
.examples img{max-width:100%;border:1px solid #e6e9ed}.warn{background:#fdf3e4;padding:.5rem .8rem;border-radius:6px}
code{background:#f4f6f8;padding:.1rem .3rem;border-radius:3px;overflow-wrap:anywhere}
"""


def render(content: Mapping[str, Any], pictures: Mapping[str, Mapping[str, Any]], tables: Sequence[str] = ()) -> str:
    """The page from the run's JSON. `pictures` are the examples by data set, `tables` further HTML (ViDoRe)."""
    name = escape(str((content["model"] or {}).get("name", "text baselines")))
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width,initial-scale=1'>",
        f"<title>varsdoc eval: {name}</title><style>{STYLE}</style></head><body>",
        f"<h1>Evaluation of {name}</h1>",
        _facts(content),
        *tables,
        "<h2>All data sets</h2>",
        _overview(content),
    ]
    for title, found in content["datasets"].items():
        parts.append(f"<h2>{escape(title)}</h2>")
        parts.extend(_dataset(title, found, content, pictures.get(title)))
    return "\n".join([*parts, "</body></html>"])


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str, published: Sequence[int] = ()) -> str:
    """Cells are text; rows named in `published` are set apart."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        f"<tr{' class=published' if i in published else ''}>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in row)
        + "</tr>"
        for i, row in enumerate(rows)
    )
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def origin(name: str, found: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """The line under every table."""
    model = content["model"] or {}
    chosen = f", queries {found['queries_file']}" if found.get("queries_file") else ""
    part = ""
    if found.get("slice_of"):
        part = f" (a slice: the whole set has {found['slice_of'][0]} pages and {found['slice_of'][1]} queries)"
    size = "" if "," in name else f": {found['queries']} queries, {found['pages']} pages"
    system = f"Model {model['name']} {model['hash']} ({model['note']})" if model else "Text baselines, no model"
    return (
        f"Data {name}{chosen}{size}{part}. {system}, token cap {model.get('token_cap')}, {model.get('dtype')}, "
        f"codec {found['codec']}, aggregation {found['aggregation']}. Command: {content['command']}"
    )


def _facts(content: Mapping[str, Any]) -> str:
    model, machine = content["model"] or {}, content["machine"]
    where = place(machine, model.get("device"))
    return (
        f"<p class='note'>Model hash <code>{escape(str(model.get('hash')))}</code>, "
        f"{escape(str(model.get('note', '')))}; "
        f"token cap {model.get('token_cap')}; {model.get('dtype')} on {escape(where)}. "
        f"Command: <code>{escape(content['command'])}</code></p>"
    )


def _overview(content: Mapping[str, Any]) -> str:
    head = ["data set", "queries", "pages", "NDCG@5", "NDCG@10", "95 % interval", "recall@10", "MRR", "MAP", "KiB/page"]
    rows = []
    for name, found in content["datasets"].items():
        rows.append(_row(name, found))
        rows += [_row(f"— {system}", own) for system, own in found.get("baselines", {}).items()]
    first = next(iter(content["datasets"].values()))
    return table(head, rows, origin(", ".join(content["datasets"]), first, content))


def _row(name: str, found: Mapping[str, Any]) -> list[str]:
    low, high = found["interval_95"]["ndcg@10"]
    size = found.get("bytes_per_page")
    return [
        name,
        f"{found['queries']:,}",
        f"{found['pages']:,}",
        f"{found['ndcg@5']:.3f}",
        f"{found['ndcg@10']:.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{found['recall@10']:.3f}",
        f"{found['mrr']:.3f}",
        f"{found['map']:.3f}",
        "" if size is None else f"{size / 1024:,.1f}",
    ]


def _dataset(
    name: str, found: Mapping[str, Any], content: Mapping[str, Any], pictures: Mapping[str, Any] | None
) -> list[str]:
    said = origin(name, found, content)
    parts = [_problems(found), _languages(found, said), _comparison(found, said), _agreement(found, said)]
    parts.append(_variants(found, said))
    plots = _plots(found, pictures)
    if plots:
        parts.append(f"<div class='plots'>{''.join(plots)}</div><p class='note'>{escape(said)}</p>")
    parts += [_sweep(found, said), _documents(found, said)]
    if pictures:
        parts.append(_examples(pictures))
    return [part for part in parts if part]


def _problems(found: Mapping[str, Any]) -> str:
    counted = [f"{count} {kind.replace('_', ' ')}" for kind, count in found["problems"].items() if count]
    return f"<p class='warn'>Judgements: {escape('; '.join(counted))}.</p>" if counted else ""


def _languages(found: Mapping[str, Any], said: str) -> str:
    if not found["languages"]:
        return ""
    rows = [
        [name, f"{own['queries']:.0f}", f"{own['ndcg@5']:.3f}", f"{own['ndcg@10']:.3f}", f"{own['recall@10']:.3f}"]
        for name, own in found["languages"].items()
    ]
    return "<h3>By language of the query</h3>" + table(
        ["language", "queries", "NDCG@5", "NDCG@10", "recall@10"], rows, said
    )


def _comparison(found: Mapping[str, Any], said: str) -> str:
    own = found.get("comparison")
    if not own:
        return ""
    head = ["compared with", "difference in NDCG@10", "95 % interval", "p (randomisation)", "wins", "losses", "ties"]
    row = [
        f"{own['with']} ({own['with_hash']})",
        f"{own['difference']:+.4f}",
        f"{own['low']:+.4f} to {own['high']:+.4f}",
        f"{own['p_value']:.4f}",
        str(own["wins"]),
        str(own["losses"]),
        str(own["ties"]),
    ]
    return "<h3>Paired test</h3>" + table(head, [row], said)


def _agreement(found: Mapping[str, Any], said: str) -> str:
    own = found.get("agreement")
    if not own:
        return ""
    rows = [
        [
            "measured",
            f"{own['p_same']:.3f} ({own['p_same_interval'][0]:.3f} to {own['p_same_interval'][1]:.3f})",
            f"{own['p_cross']:.3f} ({own['p_cross_interval'][0]:.3f} to {own['p_cross_interval'][1]:.3f})",
            f"{own['chance']:.3f}",
            str(own["pages"]),
        ],
        ["VaRS-Doc, published", f"{AGREEMENT['p_same'] / 100:.3f}", f"{AGREEMENT['p_cross'] / 100:.3f}", "", "100"],
    ]
    head = ["", "P_same", "P_cross", "chance (from usage)", "pages"]
    return "<h3>Same-intent and cross-intent agreement</h3>" + table(head, rows, said, published=[1])


def _variants(found: Mapping[str, Any], said: str) -> str:
    if len(found["usage"]) < 2:
        return ""
    rows = [
        [
            "measured",
            f"{found['max_usage']:.3f}",
            f"{found['tie_rate']:.3f}",
            f"{found['tie_rate_mean']:.3f}",
            f"{found['ndcg@10']:.3f}",
        ],
        [
            "VaRS-Doc on ViDoRe V2, published (which of the two tie rates is not said)",
            f"{OPTIMISATION['max_usage'] / 100:.3f}",
            f"{OPTIMISATION['tie_rate'] / 100:.3f}",
            "",
            f"{OPTIMISATION['ndcg@10'] / 100:.3f}",
        ],
    ]
    head = ["", "largest usage", "tie rate on sums", "tie rate on sum / tokens", "NDCG@10"]
    return "<h3>Variants on (query, gold page) pairs</h3>" + table(head, rows, said, published=[1])


def _plots(found: Mapping[str, Any], pictures: Mapping[str, Any] | None) -> list[str]:
    plots = []
    usage = found["usage"]
    if len(usage) > 1:
        labels = [f"V{k + 1}" for k in range(len(usage))]
        plots.append(bars(usage, labels, "Branch usage", "variant", "share of pairs won", 1 / len(usage)))
        gaps = found["gap_histogram"]
        plots.append(
            histogram(
                gaps["edges"], gaps["counts"], "Best minus second-best variant", "gap in score (sum)", "pairs", 0.01
            )
        )
    points = [
        Point(row["bytes_per_page"], row["ndcg@10"], row["codec"], f"K={row['variants']}", row["low"], row["high"])
        for row in found.get("sweep", [])
        if row["aggregation"] == "max"
    ]
    if points:
        plots.append(scatter(points, "NDCG@10 against stored bytes", "bytes per page (logarithmic)", "NDCG@10"))
    if pictures and any(pictures["differences"]):
        title = f"Per query, against {pictures['against']}"
        plots.append(differences(pictures["differences"], title, "queries, sorted", "difference in NDCG@10"))
    return plots


def _sweep(found: Mapping[str, Any], said: str) -> str:
    if not found.get("sweep"):
        return ""
    rows = [
        [
            f"{row['codec']}, first {row['variants']} variant(s), {row['aggregation']}",
            f"{row['ndcg@10']:.4f}",
            f"{row['low']:.3f} to {row['high']:.3f}",
            f"{row['bytes_per_page'] / 1024:,.1f}",
            f"{row['difference']:+.4f}",
            f"{row['p_value']:.3f}",
        ]
        for row in found["sweep"]
    ]
    values = ", ".join(f"{name} {value}" for name, value in AGGREGATION.items())
    note = f" Published aggregation rows, ViDoRe V2, NDCG@10 in percent: {values}."
    head = ["choice", "NDCG@10", "95 % interval", "KiB/page", "against this run", "p"]
    return "<h3>Codec, K and aggregation on the same embeddings</h3>" + table(head, rows, said + note)


def _documents(found: Mapping[str, Any], said: str) -> str:
    rows = [
        [str(row["page"]), str(row["queries"]), str(row["variants_used"]), " ".join(str(w) for w in row["wins"])]
        for row in found.get("documents", [])[:15]
        if row["queries"] > 1
    ]
    if not rows:
        return ""
    head = ["page", "queries", "variants that won", "wins by variant"]
    return "<h3>Which variants win on which pages (15 most divided)</h3>" + table(head, rows, said)


def _examples(pictures: Mapping[str, Any]) -> str:
    parts = []
    for kind in ("wins", "losses"):
        if not pictures[kind]:
            continue
        parts.append(f"<h3>Largest {kind} against {escape(pictures['against'])}</h3><div class='examples'>")
        parts += [_figure(row) for row in pictures[kind]]
        parts.append("</div>")
    if parts:
        parts.append("<p class='note'>Orange: cells like the question's tokens, averaged over them.</p>")
    return "".join(parts)


def _figure(row: Mapping[str, Any]) -> str:
    variant = "" if row["variant"] is None else f", variant {row['variant'] + 1}"
    first = row["first"]
    other = (
        f"<p>came first: {escape(first['page'])}</p><img alt='page that came first' src='{first['picture']}'>"
        if first
        else ""
    )
    return (
        f"<figure><p><b>{escape(row['query'])}</b><br>NDCG@10 {row['ndcg@10']:.2f} against {row['before']:.2f}; "
        f"wanted page at rank {row['rank']}{variant}</p><p>wanted: {escape(row['gold']['page'])}</p>"
        f"<img alt='wanted page' src='{row['gold']['picture']}'>{other}</figure>"
    )
