"""The lab: what we know about training with 1 and 2 bits, and how we know it.

Needs the library's ``[cli]`` extra and what it draws with; the library never imports it.
"""
