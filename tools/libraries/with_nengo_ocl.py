"""A network of nengo, simulated by nengo_ocl."""

import nengo
import nengo_ocl
import numpy as np

with nengo.Network(seed=1) as network:
    stimulus = nengo.Node(lambda t: np.sin(6 * t))
    a, b = nengo.Ensemble(50, 1), nengo.Ensemble(50, 1)
    nengo.Connection(stimulus, a)
    nengo.Connection(a, b, function=np.square)
    probe = nengo.Probe(b, synapse=0.01)
with nengo_ocl.Simulator(network, progress_bar=False) as simulator:
    simulator.run_steps(50)
print(f"{abs(simulator.data[probe]).sum():.4g}")
