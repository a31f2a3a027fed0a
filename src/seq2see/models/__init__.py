"""Frontends, encoders, decoders and heads, and one short page per family that puts them together."""
