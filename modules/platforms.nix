# Kernel arguments of each platform, as upstream's images have them: of clouds where their console is, the kernel's names
# of network cards, and no dashboard where no screen is. `metal` has the defaults.
let
  screen = [ "console=tty1" "console=ttyS0" ];
  headless = "talos.dashboard.disabled=1";
  cloud = name: arguments: [ "talos.platform=${name}" "net.ifnames=0" ] ++ arguments;
in
{ metal = [ ]; } // builtins.mapAttrs cloud {
  akamai = [ "console=ttyS0" "console=tty0" "console=tty1" ];
  alibabacloud = screen;
  aws = screen ++ [ "nvme_core.io_timeout=4294967295" ];
  azure = [ "console=ttyS0,115200n8" "earlyprintk=ttyS0,115200" "rootdelay=300" headless ];
  cloudstack = screen;
  digital-ocean = [ "console=ttyS0" "console=tty0" "console=tty1" ];
  exoscale = screen;
  gcp = [ "console=ttyS0" headless ];
  hcloud = screen;
  nocloud = screen;
  opennebula = screen;
  openstack = screen;
  oracle = screen ++ [ headless ];
  scaleway = screen ++ [ headless ];
  upcloud = [ ];
  vultr = [ ];
}
