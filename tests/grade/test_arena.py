"""Where the caller's arrays lie, and what is noticed when memory beside them is written."""

import mmap
import os

import numpy as np
import pytest

from tools.grade.arena import POISON, Arena, Layout, View

SHAPES = [(2, 5, 3, 8), (7, 2, 16)]


def places(view: View) -> np.ndarray:
    """Positions in the block of all elements of a view."""
    grids = np.indices(view.shape).reshape(len(view.shape), -1)
    return view.offset + sum(index * stride for index, stride in zip(grids, view.strides))


@pytest.mark.parametrize("layout", ["contiguous", "padded", "heads_first"])
def test_arrays_lie_apart_and_aligned(layout):
    room = Layout()
    views = [room.array(shape, layout) for shape in SHAPES]
    taken = np.concatenate([places(view) for view in views])
    assert len(set(taken)) == len(taken) and taken.max() < room.elements
    assert min(places(views[1])) - max(places(views[0])) > 200
    for view in views:
        assert view.offset % 8 == 0 and view.strides[-1] == 1 and all(stride % 8 == 0 for stride in view.strides[:-1])


@pytest.mark.parametrize("layout", ["contiguous", "padded", "heads_first"])
def test_an_array_knows_its_elements(layout):
    room = Layout()
    room.array((3, 2, 8), "contiguous")
    view, empty = room.array((2, 5, 3, 8), layout), room.array((0, 3, 8), layout)
    own = set(places(view))
    assert [element for element in range(room.elements) if view.contains(element)] == sorted(own)
    assert not any(empty.contains(element) for element in range(room.elements))


def test_layouts_are_what_they_are_called():
    shape = 5, 3, 8
    assert Layout().array(shape, "contiguous").strides == (24, 8, 1)
    assert Layout().array(shape, "padded").strides == (32, 8, 1)
    assert Layout().array(shape, "heads_first").strides == (8, 40, 1)
    q, k = Layout().packed([(5, 3, 8), (5, 1, 8)])
    assert (q.strides, k.strides, k.offset - q.offset) == ((32, 8, 1), (32, 8, 1), 24)


def test_whatever_is_written_beside_an_output_is_noticed():
    room = Layout()
    given, out, late = (room.array((4, 2, 8), layout) for layout in ("contiguous", "padded", "contiguous"))
    with Arena("host", room.elements) as arena:
        arena.poison()
        arena.array(given)[...] = 3
        arena.seal()
        assert arena.changed() is None and (arena.array(out) == POISON).all()
        arena.array(out)[...] = 5
        assert arena.changed() == out.offset
        assert (arena.accept([out])[0] == 5).all() and arena.changed() is None
        for element in (0, given.offset, out.offset + 17, late.offset, room.elements - 1):
            other = arena._block.words
            kept, other[element] = other[element], 7
            assert arena.changed() == element
            other[element] = kept
        arena.array(late)[...] = 6
        arena.restore()
        assert arena.changed() is None
        assert (arena.array(out) == POISON).all() and (arena.array(late) == POISON).all()
        assert (arena.array(given) == 3).all()


def test_another_mapping_sees_the_same_memory():
    room = Layout()
    view = room.array((2, 2, 8), "contiguous")
    with Arena("host", room.elements) as arena:
        share = arena.share()
        descriptor = os.open(share["path"], os.O_RDWR)
        words = np.frombuffer(mmap.mmap(descriptor, share["bytes"]), np.uint16)
        os.close(descriptor)
        arena.array(view)[...] = 9
        assert (words[view.offset : view.offset + 32] == 9).all()
