"""PyTorch on cells with rules: FlexAttention, whose rules are functions that torch.compile makes kernels of, and sdpa with
a mask of numbers."""
import os
import shutil

import torch
import torch.nn.functional as functional


def alibi_terms(cell, data):
    """What ALiBi adds to scores: [1, H, Sq, Skv]."""
    ahead = torch.arange(cell.seq_len)[None] - torch.arange(cell.queries)[:, None] - (cell.seq_len - cell.queries)
    return (-data.slopes[:, None, None] * ahead.abs())[None]


def contenders(cell, data):
    query, key, value, slopes = data.query, data.key, data.value, data.slopes
    off = cell.seq_len - cell.queries
    last = {}

    def alibi(score, batch, head, row, column):
        return score - slopes[head] * (row + off - column).abs()

    def cap(score, batch, head, row, column):
        return cell.softcap * torch.tanh(score / cell.softcap)

    def flex():
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None:
            raise NotImplementedError(f"torch.compile needs a C++ compiler when it runs, and there is no {compiler}")
        from torch.nn.attention.flex_attention import flex_attention
        compiled = torch.compile(flex_attention)
        rule = alibi if cell.has_alibi else cap if cell.softcap else None

        def run():
            last["out"] = compiled(query, key, value, score_mod=rule)
        return run, lambda: last["out"]

    def sdpa():
        if cell.softcap:
            raise NotImplementedError("no soft cap")
        mask = alibi_terms(cell, data) if cell.has_alibi else None

        def run():
            last["out"] = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return run, lambda: last["out"]

    def unfused():
        last["out"] = data.attend(cell, slice(None), query, key, value)

    return {"FlexAttention": flex, "sdpa": sdpa, "unfused": (unfused, lambda: last["out"])}
