# /etc/os-release; talos.system.version reads it, so that every place has the same.
{ version, rev }: ''
  NAME="Talos"
  ID=talos
  VERSION_ID=${version}
  PRETTY_NAME="Talos (${version})"
  BUILD_ID=${rev}
  VARIANT_ID=python
''
