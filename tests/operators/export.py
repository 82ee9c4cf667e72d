"""export.py <folder>: the attention operators' cases of ONNX's backend test suite, as plain files.

<folder>/cases.txt names the cases, one a line. <folder>/<case>/case.txt has a line for each thing that the model says:

    operator Attention 24            its name and opset
    tolerance 0.001 1e-07            relative, absolute: those of the suite
    input attn_mask bool             also in attn_mask.npy; bfloat16 is stored as the float32 that it is
    output Y float16                 what the suite wants, in Y.npy
    attribute is_causal 1
    graph score_mod Div Tanh Mul     an attribute that is a graph: its operators in order,
    constant cap 20.0                and the floats that it holds
"""

import pathlib
import sys
import warnings

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests


def tensors(kind, names, arrays, folder):
    """Saves the arrays, and says what they are."""
    lines = []
    for name, array in zip([n for n in names if n], arrays, strict=True):
        lines.append(f"{kind} {name} {array.dtype.name}")
        np.save(folder / f"{name}.npy", array.astype(np.float32) if array.dtype.name == "bfloat16" else array)
    return lines


def attributes(node):
    lines = []
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if attribute.type != onnx.AttributeProto.GRAPH:
            lines.append(f"attribute {attribute.name} {value!r}")
            continue
        lines.append(" ".join(["graph", attribute.name, *(inner.op_type for inner in value.node)]))
        for held in value.initializer:
            number = onnx.numpy_helper.to_array(held)
            if number.dtype.kind == "f":
                lines.append(f"constant {held.name} {number.item()!r}")
    return lines


def export(test, folder):
    node, (inputs, outputs) = test.model.graph.node[0], test.data_sets[0]
    folder.mkdir(parents=True, exist_ok=True)
    opset = {o.domain: o.version for o in test.model.opset_import}[node.domain]
    lines = [f"operator {node.op_type} {opset}", f"tolerance {test.rtol} {test.atol}"]
    lines += tensors("input", node.input, inputs, folder)
    lines += tensors("output", node.output, outputs, folder)
    lines += attributes(node)
    (folder / "case.txt").write_text("\n".join(lines) + "\n")


def same_numbers(one, other):
    return all(
        len(a) == len(b) and all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b))
        for a, b in zip(one.data_sets[0], other.data_sets[0], strict=True)
    )


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    with warnings.catch_warnings():  # of other operators' cases, which all are computed
        warnings.simplefilter("ignore")
        suite = load_model_tests(kind="node")
    cases = {t.name: t for t in suite if t.model.graph.node and t.model.graph.node[0].op_type.endswith("Attention")}
    # The same call again, its operator written out as a graph of others.
    expanded = [t for t in suite if "_expanded" in t.name and t.name.split("_expanded")[0] in cases]
    for again in expanded:
        if not same_numbers(again, cases[again.name.split("_expanded")[0]]):
            sys.exit(f"{again.name} has numbers of its own: export it, too")
    for test in cases.values():
        if len(test.data_sets) != 1:
            sys.exit(f"{test.name} has {len(test.data_sets)} data sets instead of one: export them all")
        export(test, root / test.name)
    (root / "cases.txt").write_text("".join(name + "\n" for name in cases))
    print(f"onnx {onnx.__version__}: {len(cases)} cases; {len(expanded)} more with the same numbers, "
          "the operator written out as a graph, are left out")


if __name__ == "__main__":
    main()
