"""Turn a file of sentences into a folder of speech: batched, on every device, unattended."""
