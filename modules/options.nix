# The options of `lib.image`, and what is wrong with given ones: a list of lines, each with the option, its value and
# what is allowed.
{ lockedOptions, lockedBy, platforms }:
let
  inherit (builtins) all attrNames concatStringsSep filter isAttrs isBool isInt isList isPath isString listToAttrs match readFile toJSON typeOf;

  # A value as it is shown in an error; functions and derivations have no text of their own.
  show = value: {
    lambda = "a function";
    path = toString value;
    list = "[ ${concatStringsSep " " (map show value)} ]";
    set = if value ? drvPath then "the derivation ${value.name}" else "{ ${concatStringsSep " " (map (name: "${name} = …;") (attrNames value))} }";
  }.${typeOf value} or (toJSON value);

  isFile = value: isPath value || value ? drvPath || (isString value && match "/nix/store/.+" value != null);

  # Only what lies in a source tree can be read now. A private key there is refused before it is in the store.
  # Nix ends with an error of its own at a file that is no text, so that one in DER is known by its name.
  isPem = kind: value: isFile value && (!isPath value || (
    let text = builtins.addErrorContext "while lib.image reads ${show value}, which has to be PEM" (readFile value);
    in match ".*[.](der|cer|p12|pfx|p7b)" (toString value) == null && match "-----BEGIN ${kind}-----.*" text != null && match ".*PRIVATE KEY.*" text == null
  ));
  isPublicKey = isPem "PUBLIC KEY";

  # Nix can't read a signed variable, so that it is known by its name.
  isVariable = value: isFile value && match ".*[.]auth" "${value.name or (toString value)}" != null;

  # What neither GRUB nor iPXE takes apart.
  isArgument = value: isString value && match "[A-Za-z0-9][A-Za-z0-9_.,:=/@+%^~*!?-]*" value != null
    && match "talos[.]platform(=.*)?" value == null;

  isKernelValue = value: isBool value || isInt value
    || (isString value && match "[^\"\n\\]+" value != null && !(builtins.elem value [ "y" "m" "n" ]));

  # Those members of a list that are wrong, or what is no list.
  members = ok: value: if isList value then filter (member: !(ok member)) value else [ value ];
  one = ok: value: if ok value then [ ] else [ value ];

  known = {
    config = {
      wrong = one isFile; # what is in it, the build checks
      allowed = "a file with a machine config, or documents of one";
    };
    extensions = {
      wrong = members isFile;
      allowed = "a list of extensions: folders, or derivations such as packages.x86_64-linux.qemu-guest-agent";
    };
    imageCache = {
      wrong = one isFile; # what is in it, the build checks
      allowed = "a folder that `talosctl image cache-create --layout=flat` has made";
    };
    kernelArgs = {
      wrong = members isArgument;
      allowed = "a list of kernel arguments without blanks, quotes and $; talos.platform is the option platform";
    };
    keys = {
      wrong = value: if value == [ ] then [ value ] else members isPublicKey value;
      allowed = "a list, not empty, of files with public Ed25519 keys in PEM, as `nix run .#keygen` writes them";
    };
    signatures = {
      wrong = one (value: isInt value && value >= 1);
      allowed = "a number from 1 to that of the keys";
    };
    platform = {
      wrong = one (value: isString value && platforms ? ${value});
      allowed = "one of ${concatStringsSep ", " (map toJSON (attrNames platforms))}";
    };
    tracing = {
      wrong = one isBool;
      allowed = "true for a kernel that programs in pods may trace, or false";
    };
  };

  line = name: value: allowed: "lib.image: ${name}: ${show value} is not allowed; it is ${allowed}";

  # Public parts of an owner's keys, as `talosctl gen secureboot` writes them; what is in them, the build checks.
  parts = {
    certificate = {
      ok = isPem "CERTIFICATE";
      allowed = "a file with a certificate in PEM, such as uki-signing-cert.pem, and no private key";
    };
    pcrKey = {
      ok = isPublicKey;
      allowed = "a file with the public half of pcr-signing-key.pem in PEM";
    };
  } // listToAttrs (map
    (name: { inherit name; value = { ok = isVariable; allowed = "a file NAME.auth of `talosctl gen secureboot database`"; }; })
    variables);
  variables = [ "pk" "kek" "db" ];

  secureBoot = value:
    if !isAttrs value || value ? drvPath || !(value ? certificate) then [ (line "secureBoot" value "a set such as { certificate = ./uki-signing-cert.pem; }") ]
    else builtins.concatMap
      (name:
        if !(parts ? ${name}) then [ "lib.image: secureBoot.${name}: there is no such option; known are ${concatStringsSep ", " (attrNames parts)}" ]
        else if parts.${name}.ok value.${name} then [ ]
        else [ (line "secureBoot.${name}" value.${name} parts.${name}.allowed) ])
      (attrNames value);

  kernelOptions = options:
    if !isAttrs options then [ (line "kernelOptions" options "a set such as { USB4 = true; }") ]
    else builtins.concatMap
      (name:
        let wrong = allowed: [ (line "kernelOptions.${name}" options.${name} allowed) ];
        in
        if match "CONFIG_.*" name != null then wrong "named without CONFIG_"
        else if match "[A-Za-z0-9_]+" name == null then wrong "the name of a symbol of the kernel's configuration"
        else if lockedOptions ? ${name} then wrong "set to ${lockedOptions.${name}} by ${lockedBy}, and can't be changed"
        else if !(isKernelValue options.${name}) then wrong "true or false, a number or a text; there are no modules"
        else [ ])
      (attrNames options);
in
options:
let
  # How many of the keys must have signed means nothing without them.
  tooMany = isAttrs options && isInt (options.signatures or null) && options.signatures >= 1
    && !(isList (options.keys or null) && options.signatures <= builtins.length options.keys);
in
if !isAttrs options then [ "lib.image: ${show options} is not allowed; it takes a set of options" ]
else builtins.concatMap
  (name:
    if name == "kernelOptions" then kernelOptions options.${name}
    else if name == "secureBoot" then secureBoot options.${name}
    else if known ? ${name} then map (value: line name value known.${name}.allowed) (known.${name}.wrong options.${name})
    else [ "lib.image: ${name}: there is no such option; known are ${concatStringsSep ", " (attrNames (known // { kernelOptions = 1; secureBoot = 1; }))}" ])
  (attrNames options)
++ (if tooMany then [ (line "signatures" options.signatures known.signatures.allowed) ] else [ ])
