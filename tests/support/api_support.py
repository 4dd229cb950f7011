"""What tests of the Python API share."""

from __future__ import annotations

from cli_support import ROOT

PROXY = ROOT / "generated" / "recsys-cv-inference"
REFERENCE = (ROOT / "docs" / "reference" / "python.md").read_text()
KINDS = ("Signature", "Mix", "SavedProxy", "Result", "ScenarioResult", "Standings", "DeviceRecord")
"""Values that show themselves."""
