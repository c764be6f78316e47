"""Every mode of `torch.compile`, in inference and training, on three small models: measured, or refused in a sentence.

`python -m tests.modes --device cpu --out FILE` runs what is not in the file yet; `--table` prints README's table.
"""
