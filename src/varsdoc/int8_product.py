"""Products of int8 matrices on a CPU, exact in int32 on every processor.

torch's `_int_mm` is not: on x86 without VNNI (most processors before 2019 and many laptops since) oneDNN adds pairs of
products in 16 bits, which overflow where both factors are large, without a word. It is asked once whether it does. If
so, products are made in floating point, where whole numbers of this size are exact too, in any order of adding. So they
are with a torch that has no oneDNN (Apple's processors): its `_int_mm` is then a plain loop.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

EXACT_IN_FLOAT32 = (1 << 24) // 127**2  # longest row whose sum float32 holds exactly


def int8_product(a: Tensor, b: Tensor, *, signs: bool = False, out: Tensor | None = None) -> Tensor:
    """a (M, D) int8 @ b (D, N) int8 -> (M, N) int32. -128 is not to be among the numbers.

    signs  b holds nothing but 1 and -1, so that no pair overflows anywhere

    >>> int8_product(torch.full((1, 4), 127, dtype=torch.int8), torch.full((4, 1), -127, dtype=torch.int8))
    tensor([[-64516]], dtype=torch.int32)
    """
    if torch.backends.mkldnn.is_available() and (signs or torch_is_exact()):
        return torch._int_mm(a, b) if out is None else torch._int_mm(a, b, out=out)
    wide = torch.float32 if a.shape[1] <= EXACT_IN_FLOAT32 else torch.float64
    product = a.to(wide) @ b.to(wide)
    return product.to(torch.int32) if out is None else out.copy_(product)


@cache
def torch_is_exact() -> bool:
    """Whether `_int_mm` adds the largest products without overflow, with few columns and with many."""
    for rows, width, columns in ((24, 512, 24), (64, 128, 4096)):
        a = torch.full((rows, width), 127, dtype=torch.int8)
        for b in (a.new_full((columns, width), sign * 127).T for sign in (1, -1)):
            if not bool((torch._int_mm(a, b) == int(b[0, 0]) * 127 * width).all()):
                return False
    return True
