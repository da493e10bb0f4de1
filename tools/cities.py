"""Turns seven OpenStreetMap street networks into hcam/envs/tasks/streets/cities.npz: intersections and streets.

The source distribution of the package neatnet 0.1.6 holds them as GeoParquet, a folder each:

pip download --no-deps --no-binary :all: neatnet==0.1.6 && tar xzf neatnet-0.1.6.tar.gz
pip install pyarrow shapely numpy                        # needed by this tool alone
python tools/cities.py neatnet-0.1.6/data hcam/envs/tasks/streets/cities.npz

A node is an intersection or a dead end, in decimetres east and north of its city's south-western corner. A street joins
two nodes. Places where only two streets meet are removed, parallel streets become one, loops are left out, and so is
what is not connected with the rest.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDERS = {
    "auckland": "auckland_869",
    "salt_lake_city": "slc_4881",
    "liege": "liege_1656",
    "bucaramanga": "bucaramanga_4617",
    "wuhan": "wuhan_8989",
    "douala": "douala_809",
    "aleppo": "aleppo_1133",
}
Links = NDArray[np.int64]  # [E, 2]: the two ends of each street, as numbers of nodes


def ends(path: Path) -> NDArray[np.float64]:
    """The first and the last point of every line: metres east and north, [E, 2, 2]."""
    import pyarrow.parquet
    import shapely

    lines = shapely.from_wkb(pyarrow.parquet.read_table(path)["geometry"].to_numpy(zero_copy_only=False))
    coordinates, line_of = shapely.get_coordinates(lines, return_index=True)
    numbers = np.arange(len(lines))
    first, last = np.searchsorted(line_of, numbers), np.searchsorted(line_of, numbers, side="right") - 1
    found: NDArray[np.float64] = np.stack([coordinates[first], coordinates[last]], 1)
    return found


def numbered(end_e22: NDArray[np.float64]) -> tuple[NDArray[np.int64], Links]:
    """Nodes in decimetres [N, 2], and streets between them: ends that are equal to the decimetre are one node."""
    decimetres = np.round(end_e22.reshape(-1, 2) * 10).astype(np.int64)
    node_n2, number = np.unique(decimetres, axis=0, return_inverse=True)
    return node_n2 - node_n2.min(0), number.reshape(-1, 2)


def simplified(link_e2: Links) -> Links:
    """Streets from intersection to intersection: whoever has exactly two street ends is walked through."""
    at: dict[int, list[tuple[int, int]]] = defaultdict(list)  # node -> its streets and where each leads to
    for street, (a, b) in enumerate(link_e2.tolist()):
        at[a].append((street, b))
        at[b].append((street, a))
    found = set()
    for start, streets in at.items():
        if len(streets) != 2:
            for first in streets:
                street, node = first
                while node != start and len(at[node]) == 2:
                    street, node = next(way for way in at[node] if way[0] != street)
                if node != start:
                    found.add((min(start, node), max(start, node)))
    return np.array(sorted(found), np.int64).reshape(-1, 2)


def connected(link_e2: Links) -> Links:
    """The streets of the largest connected part."""
    label = np.arange(link_e2.max() + 1)
    while True:
        low = label[link_e2].min(1)
        new = label.copy()
        np.minimum.at(new, link_e2[:, 0], low)
        np.minimum.at(new, link_e2[:, 1], low)
        new = new[new]  # halves the way to the smallest number
        if (new == label).all():
            break
        label = new
    parts, sizes = np.unique(label[link_e2[:, 0]], return_counts=True)
    kept: Links = link_e2[label[link_e2[:, 0]] == parts[sizes.argmax()]]
    return kept


def city(end_e22: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    """The two arrays of a city."""
    node_n2, link_e2 = numbered(end_e22)
    link_e2 = connected(simplified(link_e2))
    used, number = np.unique(link_e2, return_inverse=True)
    node_n2 = node_n2[used] - node_n2[used].min(0)
    return {"node": node_n2.astype(np.int32), "street": number.reshape(-1, 2).astype(np.uint16)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, help="the folder data/ of neatnet's source distribution")
    parser.add_argument("out", type=Path, help="the file to write")
    given = parser.parse_args()
    arrays: dict[str, Any] = {}
    for name, folder in FOLDERS.items():
        made = city(ends(given.data / folder / "simplified.parquet"))
        arrays |= {f"{name}_{part}": array for part, array in made.items()}
        print(f"{name}: {len(made['node']):,} nodes, {len(made['street']):,} streets")
    np.savez_compressed(given.out, **arrays)
    print(f"{given.out}: {given.out.stat().st_size / 1e3:,.0f} kB")


if __name__ == "__main__":
    main()
