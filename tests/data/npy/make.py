"""Writes the files of this folder with the real NumPy (1.24): python3 make.py"""
import numpy as np
from numpy.lib import format as npy

numbers = (np.arange(24) - 5) / 4
whole = np.arange(24) - 5
values = {
    "f2": numbers, "f4": numbers, "f8": numbers,
    "i4": whole * 100000000, "i8": whole * 400000000000000000,
    "u1": np.arange(24) * 11, "b1": np.arange(24) % 3 == 0,
}
for code, array in values.items():
    for order, name in (("<", "little"), (">", "big")):
        if name == "big" and code in ("u1", "b1"):
            continue
        typed = array.reshape(2, 3, 4).astype(order + code)
        np.save(f"{code}_{name}_c.npy", typed)
        np.save(f"{code}_{name}_fortran.npy", np.asfortranarray(typed))

typed = numbers.reshape(2, 3, 4).astype("<f4")
for version in ((1, 0), (2, 0), (3, 0)):
    with open(f"version{version[0]}.npy", "wb") as file:
        npy.write_array(file, typed, version=version)

np.save("zero_axes.npy", np.float64(2.5))
np.save("empty.npy", np.zeros((2, 0, 4), "f4"))
np.save("objects.npy", np.array([1, "a", None], object), allow_pickle=True)
np.save("structured.npy", np.zeros(3, [("a", "f4"), ("b", "i8")]))
np.save("complex.npy", np.zeros(3, "c8"))
np.save("text.npy", np.array(["it", "animal"]))
np.save("five_axes.npy", np.zeros((1, 1, 1, 1, 2), "f4"))
