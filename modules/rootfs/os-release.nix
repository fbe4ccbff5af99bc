# /etc/os-release; talos.system.version reads it, so that every place has the same.
{ version }: ''
  NAME="Talos"
  ID=talos
  VERSION_ID=${version}
  PRETTY_NAME="Talos (${version})"
  VARIANT_ID=python
''
