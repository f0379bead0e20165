"""Puts the stand-in under PyTorch before the program begins; the probe must run this file too."""

import os

if os.environ.get("STANDIN"):
    import torch

    import standin

    standin.install(torch)
    if os.environ.get("STANDIN_VISIBLE"):
        standin.visible(torch)
