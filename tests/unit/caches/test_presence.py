"""kcl.caches.presence: which drivers are on this machine, without loading any."""

import sys

import pytest

from kcl.caches import contents, presence


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """A Linux machine without packages, whose drivers are those of a folder."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(contents, "version", lambda _name: "")
    monkeypatch.setattr(presence, "FOLDERS", ())
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    monkeypatch.delenv("OCL_ICD_FILENAMES", raising=False)


class TestIsHere:
    def test_driver(self, tmp_path):
        """A driver is here where an ICD file names its library."""
        assert not presence.is_here("neo")
        (tmp_path / "intel.icd").write_text("/usr/lib/intel-opencl/libigdrcl.so\n")
        (tmp_path / "amd.icd").write_text("libamdocl64.so\n")
        assert presence.is_here("neo")
        assert presence.is_here("comgr")
        assert not presence.is_here("cuda")

    def test_list(self, monkeypatch, tmp_path):
        """A list of libraries counts, and so does a file in the place of a folder."""
        monkeypatch.setenv("OCL_ICD_FILENAMES", "/opt/libpocl.so.2:/opt/libnvidia-opencl.so.1")
        assert presence.is_here("pocl")
        assert presence.is_here("cuda")
        (tmp_path / "one.icd").write_text("libigdrcl.so")
        monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "one.icd"))
        assert presence.is_here("neo")

    def test_package(self, monkeypatch):
        """A package that is installed is here, and where nothing can be known the owner may be."""
        assert not presence.is_here("loopy")
        monkeypatch.setattr(contents, "version", lambda name: "1" if name == "loopy" else "")
        assert presence.is_here("loopy")
        monkeypatch.setattr(sys, "platform", "darwin")
        assert presence.is_here("cuda")


class TestIsPlatformHere:
    def test_names(self, tmp_path):
        """A platform is here where its driver is; one that nobody knows may be."""
        assert presence.is_platform_here("")
        assert presence.is_platform_here("Some vendor's platform")
        assert not presence.is_platform_here("NVIDIA CUDA")
        (tmp_path / "nvidia.icd").write_text("libnvidia-opencl.so.1")
        assert presence.is_platform_here("NVIDIA CUDA")
