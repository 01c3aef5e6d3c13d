"""Piper voices: any .onnx with its .json, spoken by batchtts' own VITS instead of onnxruntime."""

from batchtts.models.piper.adapter import adapter

__all__ = ["adapter"]
