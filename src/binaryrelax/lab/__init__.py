"""The paper's experiments: networks, image sets, recipes, one training engine, and the report.

Needs the extra ``binaryrelax[lab]``.
"""
