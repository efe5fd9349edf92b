"""Tables on a terminal, each with the line that says what it was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from varsdoc.evaluation.main_table import as_text
from varsdoc.evaluation.results import place
from varsdoc.evaluation.run import Outcome


def _show(head: Sequence[str], rows: Sequence[Sequence[str]], note: str) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:  # a file or a pipe has no width to fold at
        console = Console(highlight=False, width=200)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for i, cell in enumerate(head):
        table.add_column(cell, justify="left" if i == 0 else "right", no_wrap=i > 0)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    console.print(table)
    console.print(f"[dim]{escape(note)}[/dim]", soft_wrap=True)


def print_outcome(outcome: Outcome) -> None:
    """Figures per data set, baselines below them, paired tests, and the paper's table for ViDoRe."""
    content = outcome.json()
    model = content["model"] or {}
    rows = []
    for name, found in content["datasets"].items():
        rows.append(_figures(name, found))
        rows += [_figures(f"  {system}", own) for system, own in found.get("baselines", {}).items()]
    head = ["data set", "queries", "pages", "NDCG@5", "NDCG@10", "95 %", "recall@10", "max usage", "ties", "KiB/page"]
    note = (
        f"model {model.get('name', 'none')} {model.get('hash', '')} ({model.get('note', '')}), token cap "
        f"{model.get('token_cap')}, {model.get('dtype')}, {_choice(content)}; {outcome.command}"
    )
    _show(head, rows, note)
    _print_tests(content)
    _print_sweeps(content, note)
    for benchmark in outcome.benchmarks():
        first, *rest = as_text(benchmark, outcome.main_table(benchmark))
        _show(first, rest, f"{benchmark}, NDCG@10 in percent; {note}")


def _choice(content: Mapping[str, Any]) -> str:
    """Codec and aggregation, which one run shares."""
    found = next(iter(content["datasets"].values()))
    return f"codec {found['codec']}, aggregation {found['aggregation']}"


def _figures(name: str, found: Mapping[str, Any]) -> list[str]:
    low, high = found["interval_95"]["ndcg@10"]
    many = len(found["usage"]) > 1
    size = found["bytes_per_page"]
    return [
        name + (f" (slice of {found['slice_of'][0]})" if found.get("slice_of") else ""),
        f"{found['queries']:,}",
        f"{found['pages']:,}",
        f"{found['ndcg@5']:.3f}",
        f"{found['ndcg@10']:.3f}",
        f"{low:.3f}-{high:.3f}",
        f"{found['recall@10']:.3f}",
        f"{found['max_usage']:.3f}" if many else "",
        f"{found['tie_rate']:.3f}" if many else "",
        "" if size is None else f"{size / 1024:,.1f}",
    ]


def _print_tests(content: Mapping[str, Any]) -> None:
    console = Console(highlight=False)
    for name, found in content["datasets"].items():
        own = found.get("comparison")
        if own:
            console.print(
                f"{name}: {own['difference']:+.4f} NDCG@10 against {escape(own['with'])} "
                f"({own['low']:+.4f} to {own['high']:+.4f}, p={own['p_value']:.4f}; "
                f"{own['wins']} wins, {own['losses']} losses, {own['ties']} ties)",
                soft_wrap=True,
            )
        own = found.get("agreement")
        if own:
            console.print(
                f"{name}: P_same {own['p_same']:.3f}, P_cross {own['p_cross']:.3f} on {own['pages']} pages "
                f"(chance from usage {own['chance']:.3f}; published: 0.776, 0.308)",
                soft_wrap=True,
            )


def _print_sweeps(content: Mapping[str, Any], note: str) -> None:
    for name, found in content["datasets"].items():
        rows = [
            [
                row["codec"],
                str(row["variants"]),
                row["aggregation"],
                f"{row['ndcg@10']:.4f}",
                f"{row['bytes_per_page'] / 1024:,.1f}",
                f"{row['difference']:+.4f}",
                f"{row['p_value']:.3f}",
            ]
            for row in found.get("sweep", [])
        ]
        if rows:
            head = ["codec", "first K", "aggregation", "NDCG@10", "KiB/page", "against this run", "p"]
            _show(head, rows, f"{name}; {note}")


def print_bench(content: Mapping[str, Any]) -> None:
    """The efficiency table, published rows beside the measured."""
    rows = []
    for row in content["rows"]:
        rows.append(
            [
                row["label"],
                f"{row['index_bytes_per_page'] / 2**20:.3f} MiB ({row['bytes_ratio']:.2f}x)",
                f"{row['index_ms_per_page']:.1f} ms ({row['index_ratio']:.2f}x)",
                f"{row['query_ms']:.1f} ms ({row['query_ratio']:.2f}x)",
            ]
        )
    rows += [
        [f"{row['label']}, published", f"{row['mib']} MiB", f"{row['index_ms']} ms", f"{row['query_ms']} ms"]
        for row in content["published"]
    ]
    done = sorted({row[name] for row in content["rows"] for name in ("index_repeats", "query_repeats")})
    mean = f"mean of {done[0]}" if len(done) == 1 else f"mean of {done[0]} to {done[-1]} (--max-seconds)"
    note = (
        f"{content['data']}, {content['pages']} pages, token cap {content['token_cap']} "
        f"({content['tokens_per_page']:.0f} vectors a page), {content['dtype']}, codec {content['codec']}, batch "
        f"{content['batch']}, {mean}; {place(content['machine'], content['device'])}; model "
        f"{content['model']['hash']}; {content['command']}. {content['published_note']}"
    )
    _show(["", "index size / page", "index time / page", "latency / query"], rows, note)
