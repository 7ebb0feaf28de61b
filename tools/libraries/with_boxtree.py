"""A tree of boxtree over random particles, and the lists of a traversal, as in its demonstration."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from boxtree import TreeBuilder
from boxtree.traversal import FMMTraversalBuilder

np.set_printoptions(legacy="1.25")  # this release writes the text of numbers into kernels
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
random = np.random.default_rng(5)
particles = [cl_array.to_device(queue, random.normal(size=500)) for _axis in range(2)]
tree, _event = TreeBuilder(context)(queue, particles, max_particles_in_box=5)
lists, _event = FMMTraversalBuilder(context)(queue, tree)
print(tree.nboxes, tree.nlevels, len(lists.neighbor_source_boxes_lists))
