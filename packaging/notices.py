#!/usr/bin/env python3
"""Licences and parts of the binaries: what is linked into them, from Cargo's own resolution.

usage: packaging/notices.py DIRECTORY TARGET_TRIPLE

Writes DIRECTORY/third-party-notices.txt (each licence text once, with the crates that have it) and,
for each binary, DIRECTORY/NAME.cdx.json (CycloneDX 1.5). Build tools and tests are no part of them.
The same tree and SOURCE_DATE_EPOCH give the same bytes. Exit status 1: a crate without a licence.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid
from datetime import datetime, timezone

BINARIES = ["spindle", "spindle-lab", "spindle-csi"]
LICENCE_FILE = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)
# Texts that every crate with the licence has in the same words, for a crate that ships none.
STANDARD = {"Apache-2.0": "LICENSE-APACHE"}


def cargo(*arguments):
    command = [os.environ.get("CARGO", "cargo"), *arguments, "--locked"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def linked(binary, triple):
    """Names and versions of the crates that are linked into a binary."""
    tree = cargo("tree", "--package", binary, "--edges", "normal", "--target", triple,
                 "--prefix", "none", "--format", "{p}")
    found = set()
    for line in tree.splitlines():
        words = line.split()
        if words and "(proc-macro)" not in words:
            found.add((words[0], words[1].removeprefix("v")))
    return found


def licence_texts(package):
    """The texts of the licence files beside a crate's manifest."""
    directory = pathlib.Path(package["manifest_path"]).parent
    files = sorted(path for path in directory.iterdir() if LICENCE_FILE.match(path.name))
    files = [path for path in files if path.is_file()]
    nested = directory / "LICENSES"
    if nested.is_dir():
        files += sorted(nested.iterdir())
    return [path.read_text(encoding="utf-8", errors="replace").strip() for path in files]


def standard_texts(package, root):
    """Without files: the standard text of a licence that the crate offers, with its authors."""
    for licence, name in STANDARD.items():
        if licence in package["license"]:
            return [(root / name).read_text(encoding="utf-8").strip()]
    authors = ", ".join(package["authors"]) or f"the authors of {package['name']}"
    if "MIT" in package["license"]:
        text = (root / "LICENSE-MIT").read_text(encoding="utf-8")
        return [re.sub(r"^Copyright.*$", f"Copyright (c) {authors}", text, flags=re.M).strip()]
    return []


def notices(packages, root):
    """The notices' text, and the crates for which there is none."""
    by_text, without = {}, []
    for package in packages:
        texts = licence_texts(package) or standard_texts(package, root)
        if not package["license"] or not texts:
            without.append(package["name"])
        for text in texts:
            crate = f"{package['name']} {package['version']} ({package['license']})"
            by_text.setdefault(text, []).append(crate)
    parts = ["Third-party software that is part of Spindle's binaries, and its licences.\n"]
    for text, crates in sorted(by_text.items(), key=lambda entry: entry[1]):
        parts.append("-" * 80 + "\n" + "\n".join(crates) + "\n\n" + text + "\n")
    return "\n".join(parts), without


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksums):
    shown = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "licenses": [{"expression": package["license"].replace("/", " OR ")}],
        "purl": purl(package),
    }
    if package["description"]:
        shown["description"] = " ".join(package["description"].split())
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        shown["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        shown["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return shown


def sbom(binary, packages, edges, checksums, when):
    """A CycloneDX document of a binary, whose first part is the binary itself."""
    product = next(package for package in packages if package["name"] == binary)
    rest = [package for package in packages if package is not product]
    known = {package["id"] for package in packages}
    names = {package["id"]: purl(package) for package in packages}
    top = component(product, checksums) | {"type": "application"}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": when, "component": top},
        "components": [component(package, checksums) for package in rest],
        "dependencies": [
            {"ref": names[package["id"]],
             "dependsOn": sorted(names[other] for other in edges[package["id"]] & known)}
            for package in packages
        ],
    }
    content = json.dumps(document, sort_keys=True)
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}"
    return document


def main():
    if len(sys.argv) != 3:
        print("usage: packaging/notices.py DIRECTORY TARGET_TRIPLE", file=sys.stderr)
        return 2
    out, triple = pathlib.Path(sys.argv[1]), sys.argv[2]
    root = pathlib.Path(__file__).resolve().parent.parent
    os.chdir(root)
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", triple))
    packages = sorted(metadata["packages"], key=lambda package: (package["name"],
                                                                 package["version"]))
    edges = {
        node["id"]: {edge["pkg"] for edge in node["deps"]
                     if any(kind["kind"] is None for kind in edge["dep_kinds"])}
        for node in metadata["resolve"]["nodes"]
    }
    lock = tomllib.loads((root / "Cargo.lock").read_text(encoding="utf-8"))
    checksums = {(package["name"], package["version"]): package["checksum"]
                 for package in lock["package"] if "checksum" in package}
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    when = datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    out.mkdir(parents=True, exist_ok=True)
    outside = {}
    for binary in BINARIES:
        parts = linked(binary, triple)
        chosen = [package for package in packages
                  if (package["name"], package["version"]) in parts]
        outside |= {package["id"]: package for package in chosen if package["source"]}
        document = sbom(binary, chosen, edges, checksums, when)
        (out / f"{binary}.cdx.json").write_text(json.dumps(document, indent=1) + "\n",
                                                encoding="utf-8")
    ordered = sorted(outside.values(), key=lambda package: (package["name"], package["version"]))
    text, without = notices(ordered, root)
    (out / "third-party-notices.txt").write_text(text, encoding="utf-8")
    for name in without:
        print(f"{name}: found no licence, expected a licence file or one that is known",
              file=sys.stderr)
    print(f"{len(ordered)} crates of others, {len(text)} bytes of notices", file=sys.stderr)
    return 1 if without else 0


if __name__ == "__main__":
    sys.exit(main())
