"""The shapes on which heed meets its rivals. A name says the same as in the C++ benches."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    theme: str
    seq_len: int
    head_dim: int
    type: str = "float"
    batch_size: int = 1
    num_heads: int = 1
    num_kv_heads: int = 0  # 0: as many as num_heads
    query_len: int = 0  # 0: as many as keys
    is_causal: bool = False
    is_bshd: bool = False
    passes: str = "forward"  # or "backward", or "both"
    drop: float = 0.0  # the probability of dropping
    has_alibi: bool = False
    softcap: float = 0.0  # 0: none
    is_flexible: bool = False  # one for PyTorch's FlexAttention

    @property
    def kv_heads(self):
        return self.num_kv_heads or self.num_heads

    @property
    def queries(self):
        return self.query_len or self.seq_len

    @property
    def is_decode(self):
        return self.query_len == 1

    @property
    def is_cold(self):
        """Keys and values come from memory."""
        return self.theme == "decode"

    @property
    def scores(self):
        return self.batch_size * self.num_heads * self.queries * self.seq_len

    @property
    def flops(self):
        """A backward pass takes five products where a forward pass takes two."""
        products = {"forward": 2, "backward": 5, "both": 7}[self.passes]
        return 2.0 * products * self.scores * self.head_dim * (0.5 if self.is_causal else 1.0)

    @property
    def bytes(self):
        rows = 2 * (self.num_heads * self.queries + self.kv_heads * self.seq_len)
        return {"float": 4.0, "double": 8.0}.get(self.type, 2.0) * self.batch_size * rows * self.head_dim

    @property
    def name(self):
        mask = "decode" if self.is_decode else "causal" if self.is_causal else "full"
        text = f"{self.type}/{mask}/S{self.seq_len}/D{self.head_dim}"
        if self.batch_size != 1:
            text += f"/B{self.batch_size}"
        text += f"/H{self.num_heads}"
        if self.kv_heads != self.num_heads:
            text += f"over{self.kv_heads}"
        text += f"/Q{self.query_len}" if self.query_len > 1 else ""
        text += "/bshd" if self.is_bshd else ""
        text += {"forward": "", "backward": "/backward", "both": "/forward_and_backward"}[self.passes]
        text += f"/drop{self.drop:g}" if self.drop else ""
        text += "/alibi" if self.has_alibi else ""
        text += f"/softcap{self.softcap:g}" if self.softcap else ""
        return text + ("/flexible" if self.is_flexible and not (self.has_alibi or self.softcap) else "")


def heads_for(seq_len):
    return 4 if seq_len <= 1024 else 1


def all_cells():
    cells = []
    lengths = (128, 256, 512, 1024, 2048, 4096, 8192)
    for is_causal in (False, True):
        for head_dim in (64, 128):
            for seq_len in lengths:
                cells.append(Cell("causal" if is_causal else "forward", seq_len, head_dim,
                                  num_heads=heads_for(seq_len), is_causal=is_causal))
    for head_dim in (32, 80, 96, 256):
        cells.append(Cell("forward", 2048, head_dim))
    for type in ("bfloat16", "half", "double"):
        for head_dim in (64, 128):
            for seq_len in (512, 2048):
                cells.append(Cell("types", seq_len, head_dim, type, num_heads=heads_for(seq_len)))
    for head_dim in (64, 128):
        for num_heads in (16, 32):
            for num_kv_heads in (num_heads, num_heads // 4):
                cells.append(Cell("layouts", 2048, head_dim, num_heads=num_heads, num_kv_heads=num_kv_heads,
                                  is_bshd=True))
        cells.append(Cell("layouts", 2048, head_dim, num_heads=16, num_kv_heads=4))
    for seq_len in (8, 16, 32, 64, 197):
        cells.append(Cell("short", seq_len, 64))
    cells.append(Cell("short", 128, 64, batch_size=16, num_heads=12))
    cells.append(Cell("short", 197, 64, batch_size=8, num_heads=12))
    for type, num_kv_heads in (("float", 32), ("float", 8), ("bfloat16", 32), ("bfloat16", 8), ("bfloat16", 4)):
        for seq_len in (4096, 16384):
            cells.append(Cell("decode", seq_len, 128, type, num_heads=32, num_kv_heads=num_kv_heads, query_len=1))
    for type in ("float", "bfloat16"):
        for query_len in (8, 16, 64):
            cells.append(Cell("decode", 4096, 128, type, num_heads=32, query_len=query_len))
    for is_causal in (False, True):
        for head_dim in (64, 128):
            for seq_len in (512, 2048):
                cells.append(Cell("backward", seq_len, head_dim, num_heads=heads_for(seq_len), is_causal=is_causal,
                                  passes="backward"))
    for head_dim in (64, 128):
        cells.append(Cell("backward", 2048, head_dim, "bfloat16", passes="backward"))
    cells.append(Cell("backward", 2048, 64, is_causal=True, passes="both"))
    cells.append(Cell("backward", 2048, 64, passes="both", drop=0.1))
    for rule in ({}, {"has_alibi": True}, {"softcap": 30.0}):
        cells.append(Cell("rules", 2048, 64, num_heads=4, is_flexible=True, **rule))
    return cells
