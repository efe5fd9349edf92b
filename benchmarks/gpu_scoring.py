"""Sections of benchmarks/gpu.py about scoring: MaxSim beside its rivals, a million pages, latency of a question."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gpu_tools import Bench, Ceilings, models
from varsdoc.index.first_stage import default_candidates
from varsdoc.index.summaries import summary_length
from varsdoc.model import VarsDoc
from varsdoc.scoring import streamed
from varsdoc.scoring.device import DevicePages, Segment
from varsdoc.scoring.query_tiles import tile_queries

TOKENS, DIM = 32, 128  # of a query
QUESTION = (
    "What was the operating income of the European segment in the third quarter of 2019, before restructuring costs?"
)


def sizes(bench: Bench) -> tuple[int, int, int]:
    """Pages, variants, tokens of a variant."""
    return (3, 2, 20) if bench.tiny else (5_000, 5, 768)


def held(bench: Bench, codes: Tensor, scales: Tensor | None, codec: str, pages: int, variants: int) -> DevicePages:
    made = DevicePages.of_segment(Segment.of_equal(codes, scales, pages, variants), codec, variants, DIM)
    made.fused = made.fused or bench.tiny  # in Triton's interpreter
    return made


def tuned(bench: Bench, pages: DevicePages, queries: list[Tensor]) -> dict[str, float]:
    """Choose the kernel's layout for these shapes; the choice is part of the result."""
    if bench.device.type != "cuda":
        return {}
    from varsdoc.scoring import fused

    kind = fused.kind_of(tile_queries(queries, pages.codec))
    return {k: round(v, 3) for k, v in fused.tune(pages.codec, kind, lambda: pages.score(queries)).items()}


def maxsim(bench: Bench) -> dict[str, Any]:
    """bf16, 5,000 x 5 x 768 tokens: one query (memory binds), sixteen (the matrix units bind), beside the rivals."""
    p, k, m = sizes(bench)
    dtype = torch.float16 if bench.tiny else torch.bfloat16
    vectors = bench.random_unit(p, k, m, DIM, dtype=dtype)
    pages = held(bench, vectors.view(-1, DIM), None, str(dtype).removeprefix("torch."), p, k)
    found: dict[str, Any] = {"pages": p, "variants": k, "tokens": m, "query tokens": TOKENS, "dtype": str(dtype)}
    limits = Ceilings(bench)
    for count in (1, 16):
        queries = [bench.random_unit(TOKENS, DIM, dtype=dtype, seed=i + 1) for i in range(count)]
        part: dict[str, Any] = {"layouts tried, ms": tuned(bench, pages, queries)}
        exactly = [query.float() for query in queries]
        expected = pages.score(queries).variants
        runs: dict[str, Callable[[], Any]] = {
            "ours": lambda queries=queries: pages.score(queries),
            "ours, float32 query": lambda exactly=exactly: pages.score(exactly),
        }
        for name, rival in rivals(bench, torch.stack(queries), vectors).items():
            try:
                part[f"{name}, largest difference"] = (rival().float() - expected).abs().max().item()
                runs[name] = rival
            except Exception as error:
                part[f"{name} ms"] = f"{type(error).__name__}: {str(error)[:200]}"
        times = bench.in_turns(runs | {"copy": limits.copy, "product": limits.product})
        part |= {f"{name} ms": times[name] for name in runs}
        moved, worked = vectors.nbytes, 2.0 * count * TOKENS * p * k * m * DIM
        part["ceilings in the same rounds"] = limits.rates(times)
        part |= _shares(times["ours"], moved, worked, part["ceilings in the same rounds"])
        sample = torch.arange(min(p, 16))
        exact = reference(pages, queries, sample)
        part["largest difference to float32 reference, sample"] = (expected[:, sample] - exact).abs().max().item()
        found["one query" if count == 1 else "sixteen queries"] = part
    return found


def codes(bench: Bench) -> dict[str, Any]:
    """int8 and 1-bit codes of the same shapes, float32 queries."""
    return {codec: _coded(bench, codec, bench.results.get("ceilings", {})) for codec in ("int8", "binary")}


def _coded(bench: Bench, codec: str, limits: dict[str, Any]) -> dict[str, Any]:
    p, k, m = sizes(bench)
    pages = random_codes(bench, codec, p, k, m)
    part: dict[str, Any] = {}
    for count in (1, 16):
        queries = [bench.random_unit(TOKENS, DIM, dtype=torch.float32, seed=i + 1) for i in range(count)]
        tried = tuned(bench, pages, queries)
        ms = bench.milliseconds(lambda queries=queries: pages.score(queries))
        part[f"{count} queries ms"] = ms
        part[f"{count} queries, layouts tried, ms"] = tried
        part |= {f"{count} queries, {name}": x for name, x in _shares(ms, pages.nbytes, None, limits).items()}
    sample = torch.arange(min(p, 16))
    exact = reference(pages, queries, sample)
    part["largest difference to float32 reference, sample"] = (
        (pages.score(queries).variants[:, sample] - exact).abs().max().item()
    )
    return part


def _shares(ms: float, moved: float, worked: float | None, limits: dict[str, Any]) -> dict[str, Any]:
    """Of the measured ceilings; None where they were not measured in this run."""
    copy, product = limits.get("copy TB/s"), limits.get("bf16 product TFLOP/s")
    shares = {"TB/s": moved / ms / 1e9, "share of copy bandwidth": moved / ms / 1e9 / copy if copy else None}
    if worked is not None:
        done = worked / ms / 1e9
        shares |= {"TFLOP/s": done, "share of matrix rate": done / product if product else None}
    return shares


def random_codes(bench: Bench, codec: str, p: int, k: int, m: int) -> DevicePages:
    """Codes of random pages, made on the device."""
    count = p * k * m
    if codec == "binary":
        codes = torch.empty(count, DIM // 8, dtype=torch.uint8, device=bench.device)
        generator = torch.Generator(bench.device).manual_seed(3)
        for part in codes.split(1 << 26):
            part.random_(0, 256, generator=generator)
        return held(bench, codes, None, codec, p, k)
    vectors = bench.random_unit(count, DIM, dtype=torch.float16)
    codes = torch.empty(count, DIM, dtype=torch.int8, device=bench.device)
    scales = torch.empty(count, dtype=torch.float16, device=bench.device)
    for at in range(0, count, 1 << 22):
        some = vectors[at : at + (1 << 22)].float()
        scale = (some.abs().amax(1) / 127).half()
        codes[at : at + len(some)] = (some / scale.float()[:, None]).round().clamp(-127, 127).to(torch.int8)
        scales[at : at + len(some)] = scale
    return held(bench, codes, scales, codec, p, k)


def random_summaries(bench: Bench, p: int, k: int, m: int) -> DevicePages:
    """A first stage of the size that such pages have. It finds nothing in random pages: what it costs is measured."""
    count = p * summary_length(k * m)
    codes = torch.empty(count, DIM, dtype=torch.int8, device=bench.device)
    generator = torch.Generator(bench.device).manual_seed(4)
    for part in codes.split(1 << 22):
        part.random_(-40, 41, generator=generator)
    scales = torch.full((count,), 1 / 127, dtype=torch.float16, device=bench.device)
    return held(bench, codes, scales, "int8", p, 1)


def reference(pages: DevicePages, queries: list[Tensor], rows: Tensor) -> Tensor:
    """Some pages decoded to float32 and scored in plain PyTorch."""
    segment = pages.segments[0]
    starts, tokens = segment.places
    layout = (pages.codec, pages.dim, segment.codes, segment.scales, starts, tokens)
    return streamed.best_of_runs(queries, *layout, rows.int().to(pages.device), pages.variants)


def rivals(bench: Bench, queries: Tensor, vectors: Tensor) -> dict[str, Callable[[], Tensor]]:
    """Each gives (Q, P, K). queries (Q, T, D), vectors (P, K, M, D)."""
    p, k, m, d = vectors.shape

    def einsum(q: Tensor, v: Tensor) -> Tensor:
        return torch.einsum("qtd,nmd->qtnm", q, v).amax(-1).sum(1, dtype=torch.float32)

    def in_parts(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], Tensor]:
        """Its similarity tensor must fit: as many pages at a time as 8 GiB hold."""
        flat = vectors.view(p * k, m, d)
        step = max(1, (8 << 30) // (queries.shape[0] * queries.shape[1] * m * vectors.element_size()))
        return lambda: torch.cat([function(queries, part) for part in flat.split(step)], 1).view(len(queries), p, k)

    found = {"torch einsum": in_parts(einsum)}
    compiled = torch.compile(einsum, backend=bench.backend)
    found["torch.compile of einsum"] = in_parts(compiled)
    if bench.flash_maxsim is not None and bench.device.type == "cuda":
        if str(bench.flash_maxsim) not in sys.path:
            sys.path.insert(0, str(bench.flash_maxsim))
        from flash_maxsim import flash_maxsim, flash_maxsim_batched

        flat = vectors.view(p * k, m, d)
        if len(queries) == 1:
            found["flash-maxsim"] = lambda: flash_maxsim(queries[0], flat).view(1, p, k)
        else:
            found["flash-maxsim"] = lambda: flash_maxsim_batched(queries, flat, shared_docs=True).view(-1, p, k)
    return found


def million(bench: Bench) -> dict[str, Any]:
    """A million pages x 5 x 768 in 1-bit codes on the card: exact exhaustive search."""
    p, k, m = (5, 2, 20) if bench.tiny else (1_000_000, 5, 768)
    pages = random_codes(bench, "binary", p, k, m)
    found: dict[str, Any] = {"pages": p, "variants": k, "tokens": m, "codes GB": pages.nbytes / 1e9}
    queries = [bench.random_unit(TOKENS, DIM, dtype=torch.float32, seed=i + 1) for i in range(16)]
    found["one query ms"] = bench.milliseconds(lambda: pages.score(queries[:1]), 7, 2)
    found["one query with top 10 on the host"] = bench.latency(lambda: pages.search(queries[0], 10), 7)
    found["sixteen queries ms"] = bench.milliseconds(lambda: pages.score(queries), 3, 1)
    found["sixteen queries, ms a query"] = found["sixteen queries ms"] / 16
    wanted = found["candidates"] = default_candidates(p)
    summaries = random_summaries(bench, p, k, m)
    found["summaries GB"] = summaries.nbytes / 1e9
    found["one query in two stages, top 10 on the host"] = bench.latency(
        lambda: pages.search_in_two(queries[0], 10, summaries, wanted), 20
    )
    sample = torch.randperm(p, generator=torch.Generator().manual_seed(5))[:64]
    exact = reference(pages, queries, sample)
    found["largest difference to float32 reference, 64 pages x 16 queries"] = (
        (pages.score(queries).variants[:, sample.to(bench.device)] - exact).abs().max().item()
    )
    found["goal: under 100 ms a query"] = found["one query ms"] < 100
    return found


def latency(bench: Bench) -> dict[str, Any]:
    """A question in words to its ten best of 5,000 pages, wall clock: encoding and search, K = 1, 3, 5 in turns."""
    p, _, m = sizes(bench)
    wanted = default_candidates(p)
    found: dict[str, Any] = {"pages": p, "tokens": m, "question": QUESTION, "candidates of two stages": wanted}
    whole: dict[str, Callable[[], Any]] = {}
    parts: dict[str, Callable[[], Any]] = {}
    for k in (1, 3, 5):
        model = models(bench, k).prepare(compile=True, backend=bench.backend)
        count = len(model.processor.query_ids(QUESTION))
        found["query tokens"] = count
        query = bench.random_unit(count, DIM, dtype=torch.float32)

        def encode(model: VarsDoc = model) -> Tensor:
            return model.encode_queries([QUESTION], progress=False)[0]

        parts[f"K={k}, encoding"] = encode
        for name in ("bfloat16", "binary"):
            if name == "binary":
                pages = random_codes(bench, name, p, k, m)
                summaries = random_summaries(bench, p, k, m)

                def two(asked: Tensor, pages: DevicePages = pages, summaries: DevicePages = summaries) -> Any:
                    return pages.search_in_two(asked, 10, summaries, wanted)

                parts[f"K={k}, search alone, {name} in two stages"] = lambda two=two, query=query: two(query)
                whole[f"K={k}, encoding + search, {name} in two stages"] = lambda two=two, encode=encode: two(encode())
            else:
                kind = torch.float16 if bench.tiny else torch.bfloat16
                vectors = bench.random_unit(p * k * m, DIM, dtype=kind)
                pages = held(bench, vectors, None, str(kind).removeprefix("torch."), p, k)
                del vectors
            parts[f"K={k}, search alone, {name}"] = lambda pages=pages, query=query: pages.search(query, 10)
            whole[f"K={k}, encoding + search, {name}"] = lambda pages=pages, encode=encode: pages.search(encode(), 10)
    found |= bench.latency_in_turns(whole) | bench.latency_in_turns(parts)
    for k in (1, 3, 5):
        models(bench, k).fast = None
    took = {
        name: {k: found[f"K={k}, encoding + search, {name}"]["p50 ms"] for k in (1, 3, 5)}
        for name in ("bfloat16", "binary", "binary in two stages")
    }
    found |= {f"K=5 / K=1, {name}": ms[5] / ms[1] for name, ms in took.items()}
    fastest = {k: min(took["binary"][k], took["binary in two stages"][k]) for k in (1, 5)}
    found["K=5 / K=1, binary, each the faster way (goal at most 1.05)"] = fastest[5] / fastest[1]
    return found
