"""Our models in other people's engines: CTranslate2, Hugging Face transformers, ONNX."""
