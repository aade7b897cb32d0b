"""Fashion-MNIST: 70,000 images of ten kinds of clothes, 28 by 28 pixels (Xiao, Rasul & Vollgraf 2017).

The Debian package ``dataset-fashion-mnist`` installs it; the SHA-256 of each file is pinned. Images have no owners, so
clients are synthetic: a public permutation distributes the 60,000 training images over 2,400 clients, 25 each.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import ConfigError, check
from epsilog.training.data.dataset import Dataset, TestSet
from epsilog.training.federation import Federation

FOLDER = Path("/usr/share/datasets/fashion-mnist")  # or a folder of that name in the cache
PINNED = {
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
UNITS = ("client", "picture")
CLIENTS, EACH, SIDE, CLASSES = 2400, 25, 28, 10


def load_fashion_mnist(unit: str, cache: Path) -> Dataset:
    """Return the data for a privacy unit: "client" or "picture"."""
    unit = check.one_of(UNITS)(privacy_unit=unit)
    images, labels, test_images, test_labels = (_read_pinned_file(name, cache) for name in PINNED)
    dealt = np.random.Generator(np.random.Philox(key=0)).permutation(CLIENTS * EACH)
    return Dataset(
        name="fashion-mnist",
        unit=unit,
        unit_is_client=unit == "client",
        clients=Federation(_scale_pixels(images[dealt]), labels[dealt].astype(np.int64), np.full(CLIENTS, EACH)),
        test=TestSet(_scale_pixels(test_images), test_labels.astype(np.int64)),
        classes=CLASSES,
        facts=_facts(),
        counts_are_public=True,
    )


def _read_pinned_file(name: str, cache: Path) -> NDArray[np.uint8]:
    """Return the images or labels of a file with the pinned hash."""
    unpacked = cache / FOLDER.name
    path = (unpacked if unpacked.is_dir() else FOLDER) / f"{name}.gz"
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError):
        reason = f"data: {path} cannot be read; install it with: apt-get install dataset-fashion-mnist"
        raise ConfigError("fashion-mnist", [reason]) from None
    found = hashlib.sha256(content).hexdigest()
    if found != PINNED[name]:
        raise ConfigError("fashion-mnist", [f"{path.name}: SHA-256 must be {PINNED[name]}, got {found}"])
    head = 4 * (1 + content[3])  # magic number (its last byte is the number of dimensions) and sizes
    shape = np.frombuffer(content[4:head], dtype=">u4").astype(int)
    return np.frombuffer(content, dtype=np.uint8, offset=head).reshape(shape)


def _scale_pixels(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return pixels from 0 to 1, one image per row."""
    return images.reshape(len(images), SIDE * SIDE).astype(np.float32) / np.float32(255)


def _facts() -> dict[str, Any]:
    return {
        "source": "Fashion-MNIST, Debian package dataset-fashion-mnist",
        "licence": "MIT; not redistributed",
        "data_sha256": hashlib.sha256("".join(PINNED.values()).encode()).hexdigest(),
        "partition": f"made: a public permutation (Philox, key 0) deals pictures to {CLIENTS} clients, {EACH} each",
        "test_set": "the 10,000 test pictures of the set; public",
        "scaling": "pixels (0 to 255) / 255",
    }
