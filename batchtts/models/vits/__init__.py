"""One masked, batched VITS for Piper voices and Hugging Face checkpoints; read `model.py` first."""
