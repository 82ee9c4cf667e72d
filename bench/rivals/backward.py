"""PyTorch on cells with a backward pass: its autograd over whatever it dispatches to, and the kernel of its flash one."""
import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

ALL = [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]


def contenders(cell, data):
    leaves = [x.detach().requires_grad_() for x in (data.query, data.key, data.value)]
    is_grouped = cell.kv_heads != cell.num_heads
    last = {}

    def attend(backends):
        with sdpa_kernel(backends):
            return functional.scaled_dot_product_attention(*leaves, is_causal=cell.is_causal, dropout_p=cell.drop,
                                                           enable_gqa=is_grouped)

    def both(backends):
        def run():
            out = attend(backends)
            last["all"] = (out.detach(), *torch.autograd.grad(out, leaves, data.d_out))
        return run

    def once(backends):
        """Of one forward pass, whose intermediate results are kept."""
        def make():
            out = attend(backends)

            def run():
                last["all"] = torch.autograd.grad(out, leaves, data.d_out, retain_graph=True)
            return run, result
        return make

    def flash():
        """Without autograd."""
        inputs = [x.detach() for x in leaves]
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*inputs, 0.0, cell.is_causal)[:2]
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward

        def run():
            last["all"] = kernel(data.d_out, *inputs, out, lse, 0.0, cell.is_causal)
        return run, result

    def result():
        """Which probabilities it dropped nobody knows."""
        return None if cell.drop else last["all"]

    if cell.passes == "both":
        return {"autograd": (both(ALL), result), "autograd unfused": (both(SDPBackend.MATH), result)}
    variants = {"autograd": once(ALL), "autograd unfused": once(SDPBackend.MATH)}
    if not cell.drop and not is_grouped:
        variants["flash"] = flash
    return variants
