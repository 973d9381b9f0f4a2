"""Reading Python packages as syntax: names, literals, dataclasses and registries, without importing anything."""
