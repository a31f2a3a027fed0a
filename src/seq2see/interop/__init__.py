"""Reading pretrained models (Hugging Face, timm, Google, GGUF), and export to CTranslate2, Hugging Face and ONNX."""
