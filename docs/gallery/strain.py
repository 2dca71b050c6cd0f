"""Strain from a function of your own.

The distance of one Bragg disk from the beam, measured frame by frame with a function in Python:
where the lattice is stretched, the disk comes closer. libertem-blobfinder does this with more
care, for all disks.
"""

import matplotlib.pyplot as plt
import numpy as np

import framefold as ff


class DiskDistance(ff.UDF):
    """The distance of a disk from the beam, by centres of mass around where they are on average."""

    def get_result_buffers(self):
        """Declare a distance in pixels for each frame."""
        return {"distance": self.buffer(kind="nav", dtype="float64")}

    def get_task_data(self):
        """Compute once per partition how far pixels are from beam and disk."""
        y, x = np.indices(tuple(self.meta.dataset_shape.sig))
        return {"y": y, "x": x}

    def process_frame(self, frame):
        """Measure one frame."""
        y, x, r = self.task_data.y, self.task_data.x, self.params.r
        found = []
        for place in (self.params.beam, self.params.disk):
            for _ in range(3):
                weights = frame * (np.hypot(y - place[0], x - place[1]) < 1.4 * r)
                total = weights.sum()
                place = (weights * y).sum() / total, (weights * x).sum() / total
            found.append(place)
        self.results.distance[:] = np.hypot(*np.subtract(*found))


ctx = ff.Context()
dataset = ff.example_scan("small")
mean = ctx.run_udf(dataset=dataset, udf=ff.SumUDF())["intensity"].data
y, x = np.indices(mean.shape)
apart = np.where(np.hypot(y - 32, x - 32) > 6, mean, 0)
disk = np.unravel_index(np.argmax(apart), mean.shape)

udf = DiskDistance(beam=(32, 32), disk=disk, r=3)
distance = ctx.run_udf(dataset=dataset, udf=udf)["distance"].data
strain = np.median(distance) / distance - 1

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
left.imshow(np.log1p(mean))
left.plot([32, disk[1]], [32, disk[0]], "w-o", mfc="none")
left.set_title("mean pattern, and the vector")
shown = right.imshow(100 * strain, cmap="RdBu_r", vmin=-4, vmax=4)
figure.colorbar(shown, ax=right, label="strain in %")
right.set_title("strain along it")
plt.show()
