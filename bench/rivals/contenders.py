"""heed and its rivals on one cell: each a function without arguments, all on the same numbers.

A contender is made by one of the functions below as {variant: (run, result)}: `run()` computes, `result()` gives what
came out as a torch tensor [B, H, S, D]; of a cell with a backward pass, as a tuple of them: (out, dq, dk, dv), without out
where it is backward alone, or None where it cannot be compared. What a package cannot do it refuses by an exception, and
that variant is left out.
"""
import ctypes

import numpy as np
import torch
import torch.nn.functional as functional

import backward
import flexible

TORCH_TYPES = {"float": torch.float32, "bfloat16": torch.bfloat16, "half": torch.float16, "double": torch.float64}


class Operands:
    """Query, key, value from N(0, 1), as tensors [B, H, S, D]; in a bshd cell the memory is [B, S, H, D]."""

    def __init__(self, cell):
        generator = torch.Generator().manual_seed(20240607)

        def box(heads, rows):
            shape = (cell.batch_size, rows, heads, cell.head_dim) if cell.is_bshd else \
                    (cell.batch_size, heads, rows, cell.head_dim)
            data = torch.randn(shape, generator=generator).to(TORCH_TYPES[cell.type])
            return data.transpose(1, 2) if cell.is_bshd else data

        self.query = box(cell.num_heads, cell.queries)
        self.key = box(cell.kv_heads, cell.seq_len)
        self.value = box(cell.kv_heads, cell.seq_len)
        self.d_out = box(cell.num_heads, cell.queries)
        self.slopes = 2.0 ** (-8.0 * torch.arange(1, cell.num_heads + 1) / cell.num_heads)

    def attend(self, cell, rows, query, key, value, keep=None):
        """Some rows of the result. `keep`: what dropout multiplies probabilities with."""
        group = cell.num_heads // cell.kv_heads
        key, value = (x.repeat_interleave(group, 1) for x in (key, value))
        scores = query[:, :, rows] @ key.transpose(2, 3) * cell.head_dim ** -0.5
        place = torch.arange(cell.queries)[rows] + cell.seq_len - cell.queries
        ahead = torch.arange(cell.seq_len)[None] - place[:, None]
        if cell.softcap:
            scores = cell.softcap * torch.tanh(scores / cell.softcap)
        if cell.has_alibi:
            scores = scores - self.slopes.to(scores.dtype)[:, None, None] * ahead.abs()
        if cell.is_causal:
            scores = scores.masked_fill(ahead > 0, float("-inf"))
        weights = torch.softmax(scores, 3)
        return (weights if keep is None else weights * keep) @ value

    def exact(self, cell, rows, shim):
        """What a contender's result must be, in double, as a tuple: some rows of a forward pass, all of a backward one."""
        inputs = [x.detach().double() for x in (self.query, self.key, self.value)]
        if cell.passes == "forward":
            return (self.attend(cell, rows, *inputs),)
        for x in inputs:
            x.requires_grad_()
        out = self.attend(cell, rows, *inputs, self.kept(cell, shim))
        gradients = torch.autograd.grad(out, inputs, self.d_out.double())
        return gradients if cell.passes == "backward" else (out.detach(), *gradients)

    def kept(self, cell, shim):
        """The dropout of heed; other packages draw other numbers."""
        if not cell.drop:
            return None
        keep = torch.empty((cell.batch_size, cell.num_heads, cell.queries, cell.seq_len), dtype=torch.bool)
        shim.heed_kept(keep.data_ptr(), *keep.shape, cell.drop)
        return keep / (1 - cell.drop)


class Request(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in
                ("query", "key", "value", "out", "lse", "d_out", "dq", "dk", "dv", "slopes")] + \
               [(name, ctypes.c_double) for name in ("softcap", "drop")] + \
               [(name, ctypes.c_long) for name in
                ("batch_size", "num_heads", "num_kv_heads", "query_len", "seq_len", "head_dim")] + \
               [(name, ctypes.c_int) for name in ("type", "is_causal", "is_bshd", "passes", "threads")]


def heed(cell, data, threads, shim):
    out, dq, dk, dv = (torch.empty_like(x) for x in (data.query, data.query, data.key, data.value))
    lse = torch.empty((cell.batch_size, cell.num_heads, cell.queries))
    slopes = data.slopes.data_ptr() if cell.has_alibi else None
    on = Request(*(x.data_ptr() for x in (data.query, data.key, data.value, out, lse, data.d_out, dq, dk, dv)), slopes,
                 cell.softcap, cell.drop, cell.batch_size, cell.num_heads, cell.kv_heads, cell.queries, cell.seq_len,
                 cell.head_dim, list(TORCH_TYPES).index(cell.type), cell.is_causal, cell.is_bshd,
                 ("forward", "backward", "both").index(cell.passes), threads)
    call = ctypes.c_void_p(shim.heed_prepare(ctypes.byref(on)))
    if not call:
        raise RuntimeError("heed cannot do this cell")
    run_it = shim.heed_run
    memory = {"out": out, "lse": lse, "dq": dq, "dk": dk, "dv": dv}  # lives with the result: the call has but pointers
    names = {"forward": ["out"], "backward": ["dq", "dk", "dv"], "both": ["out", "dq", "dk", "dv"]}[cell.passes]

    def run():
        if run_it(call):
            raise RuntimeError("heed refused the call")

    return {"heed": (run, lambda: tuple(memory[name] for name in names))}


def pytorch(cell, data, threads, shim):
    if cell.passes != "forward":
        return backward.contenders(cell, data)
    if cell.is_flexible:
        return flexible.contenders(cell, data)
    query, key, value = data.query, data.key, data.value
    is_grouped = cell.kv_heads != cell.num_heads
    last = {}

    def sdpa():
        last["out"] = functional.scaled_dot_product_attention(query, key, value, is_causal=cell.is_causal,
                                                              enable_gqa=is_grouped)

    def flash():
        last["out"] = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0,
                                                                                 cell.is_causal)[0]

    def unfused():
        last["out"] = torch.ops.aten._scaled_dot_product_attention_math(query, key, value, None, 0.0, cell.is_causal,
                                                                        enable_gqa=is_grouped)[0]

    variants = {"sdpa": sdpa}
    if not is_grouped:
        variants["flash"] = flash
    if cell.scores <= 1 << 26:  # it holds all of them
        variants["unfused"] = unfused
    return {name: (run, lambda: last["out"]) for name, run in variants.items()}


def onnx_runtime(cell, data, threads, shim):
    import onnx
    import onnxruntime
    from onnx import helper

    if cell.passes != "forward":
        raise NotImplementedError("no backward pass")
    kinds = {"float": (onnx.TensorProto.FLOAT, np.float32), "half": (onnx.TensorProto.FLOAT16, np.float16),
             "double": (onnx.TensorProto.DOUBLE, np.float64)}
    if cell.type not in kinds:
        return {}
    kind, number = kinds[cell.type]
    batch, heads, kv_heads, dim = cell.batch_size, cell.num_heads, cell.kv_heads, cell.head_dim
    has_rule = cell.has_alibi or cell.softcap != 0
    mask = {"mask": flexible.alibi_terms(cell, data).numpy()} if cell.has_alibi else {}

    def merged(x):  # [B, S, H * D]: what these operators are made for
        return np.ascontiguousarray(x.transpose(1, 2).reshape(batch, x.shape[2], -1).numpy())

    def separate(x):
        return np.ascontiguousarray(x.numpy())

    def split(out):
        return torch.from_numpy(out).reshape(batch, cell.queries, heads, dim).transpose(1, 2)

    def session(node, inputs, outputs):
        """Everything bound beforehand, so that a run copies nothing; an array that is an output too is its own."""
        info = {a.dtype: helper.np_dtype_to_tensor_dtype(a.dtype) for a in inputs.values()}
        graph = helper.make_graph(
            [node], "attention",
            [helper.make_tensor_value_info(n, info[a.dtype], a.shape) for n, a in inputs.items()],
            [helper.make_tensor_value_info(n, kind, a.shape) for n, a in outputs.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23),
                                                        helper.make_opsetid("com.microsoft", 1)], ir_version=10)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        made = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        binding = made.io_binding()
        values = {id(a): onnxruntime.OrtValue.ortvalue_from_numpy(a) for a in [*inputs.values(), *outputs.values()]}
        for name, array in inputs.items():
            binding.bind_ortvalue_input(name, values[id(array)])
        for name, array in outputs.items():
            binding.bind_ortvalue_output(name, values[id(array)])
        result = values[id(outputs["o"])]
        return lambda: made.run_with_iobinding(binding), result

    def multi_head():
        if has_rule or cell.kv_heads != heads or (cell.is_causal and cell.queries != cell.seq_len):
            raise NotImplementedError
        node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["o"], domain="com.microsoft", num_heads=heads,
                                unidirectional=int(cell.is_causal))
        out = np.empty((batch, cell.queries, heads * dim), number)
        run, result = session(node, {"q": merged(data.query), "k": merged(data.key), "v": merged(data.value)},
                              {"o": out})
        return run, lambda: split(result.numpy())

    def standard():
        node = helper.make_node("Attention", ["q", "k", "v", *mask], ["o"], q_num_heads=heads, kv_num_heads=kv_heads,
                                is_causal=int(cell.is_causal), softcap=cell.softcap)
        out = np.empty((batch, cell.queries, heads * dim), number)
        run, result = session(node, {"q": merged(data.query), "k": merged(data.key), "v": merged(data.value), **mask},
                              {"o": out})
        return run, lambda: split(result.numpy())

    def standard_separate():
        node = helper.make_node("Attention", ["q", "k", "v", *mask], ["o"], is_causal=int(cell.is_causal),
                                softcap=cell.softcap)
        out = np.empty((batch, heads, cell.queries, dim), number)
        run, result = session(node, {"q": separate(data.query), "k": separate(data.key), "v": separate(data.value),
                                     **mask}, {"o": out})
        return run, lambda: torch.from_numpy(result.numpy())

    def grouped():
        """Causal by nature. One query row takes the older keys from a cache that it appends to in place."""
        if has_rule or not (cell.is_causal or cell.is_decode):
            raise NotImplementedError
        lengths = {"seqlens": np.full([batch], cell.seq_len - 1, np.int32), "total": np.array([cell.seq_len], np.int32)}
        inputs = {"q": merged(data.query)}
        outputs = {"o": np.empty((batch, cell.queries, heads * dim), number)}
        names = ["q", "k", "v", "", "", "seqlens", "total"]
        if cell.is_decode:
            inputs.update(k=merged(data.key[:, :, -1:]), v=merged(data.value[:, :, -1:]))
            inputs.update(past_k=separate(data.key).copy(), past_v=separate(data.value).copy())
            outputs.update(present_k=inputs["past_k"], present_v=inputs["past_v"])
            names[3:5] = ["past_k", "past_v"]
        else:
            inputs.update(k=merged(data.key), v=merged(data.value))
            cache = (batch, kv_heads, cell.seq_len, dim)
            outputs.update(present_k=np.empty(cache, number), present_v=np.empty(cache, number))
        node = helper.make_node("GroupQueryAttention", names, ["o", "present_k", "present_v"], domain="com.microsoft",
                                num_heads=heads, kv_num_heads=kv_heads)
        run, result = session(node, {**inputs, **lengths}, outputs)
        return run, lambda: split(result.numpy())

    return {"MultiHeadAttention": multi_head, "Attention": standard, "Attention 4D": standard_separate,
            "GroupQueryAttention": grouped}


def openvino(cell, data, threads, shim):
    import openvino as ov
    from openvino import opset13 as ops

    if cell.passes != "forward" or cell.has_alibi or cell.softcap:
        raise NotImplementedError("neither a backward pass nor these rules")
    types = {"float": ov.Type.f32, "bfloat16": ov.Type.bf16, "half": ov.Type.f16}
    if cell.type not in types:
        return {}
    kind = types[cell.type]

    def tensor(x):
        """[B, H, S, D], or [B, S, H, D] where the memory is that."""
        x = x.transpose(1, 2) if cell.is_bshd else x
        x = x.contiguous()
        if cell.type == "bfloat16":
            made = ov.Tensor(kind, list(x.shape))
            made.data[...] = x.view(torch.int16).numpy().view(made.data.dtype)
            return made
        return ov.Tensor(x.numpy(), shared_memory=True)

    def request(hint):
        def make():
            tensors = [tensor(x) for x in (data.query, data.key, data.value)]
            inputs = [ops.parameter(list(t.shape), kind) for t in tensors]
            order = ops.constant(np.array([0, 2, 1, 3], np.int64))
            parts = [ops.transpose(x, order) for x in inputs] if cell.is_bshd else list(inputs)
            group = cell.num_heads // cell.kv_heads
            if group != 1:  # the operator wants as many heads everywhere
                wide = np.array([cell.batch_size, cell.kv_heads, group, cell.seq_len, cell.head_dim], np.int64)
                flat = np.array([cell.batch_size, cell.num_heads, cell.seq_len, cell.head_dim], np.int64)
                for i in (1, 2):
                    one = ops.unsqueeze(parts[i], ops.constant(np.array([2], np.int64)))
                    parts[i] = ops.reshape(ops.broadcast(one, ops.constant(wide)), ops.constant(flat), False)
            out = ops.scaled_dot_product_attention(*parts, causal=cell.is_causal)
            if cell.is_bshd:
                out = ops.transpose(out, order)
            model = ov.Model([out], inputs)
            options = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": hint, "NUM_STREAMS": 1,
                       "ENABLE_CPU_PINNING": False}
            made = ov.Core().compile_model(model, "CPU", options).create_infer_request()
            for i, t in enumerate(tensors):
                made.set_input_tensor(i, t)

            def result():
                out = made.get_output_tensor(0).data
                if cell.type == "bfloat16":
                    out = torch.from_numpy(np.array(out).view(np.int16)).view(torch.bfloat16)
                else:
                    out = torch.from_numpy(np.array(out))
                return out.transpose(1, 2) if cell.is_bshd else out

            return made.infer, result

        return make

    hints = {"float": [ov.Type.f32], "bfloat16": [ov.Type.bf16], "half": [ov.Type.f16, ov.Type.f32]}
    return {f"hint {hint.get_type_name()}": request(hint) for hint in hints[cell.type]}


RIVALS = {"PyTorch": pytorch, "ONNX Runtime": onnx_runtime, "OpenVINO": openvino}


def all_contenders(cell, data, threads, shim, note):
    """{(who, variant): (run, result)}; what a package refuses is told to note()."""
    found = {("heed", "heed"): heed(cell, data, threads, shim)["heed"]}
    for who, make in RIVALS.items():
        try:
            variants = make(cell, data, threads, shim)
        except (ImportError, NotImplementedError) as error:
            note(f"{cell.name}: {who}: {error}")
            continue
        for variant, one in variants.items():
            try:
                run, result = one() if callable(one) else one
                run()
                found[who, variant] = run, result
            except Exception as error:  # each package has its own ways of saying no
                note(f"{cell.name}: {who} {variant}: {' '.join(str(error).split())[:160] or 'not for this cell'}")
    return found
