# nix run PATH-OF-THIS-FOLDER#vramscope -- analyze snapshot.pickle
{
  description = "What filled the GPU, why, what it should have been, and what to change";
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";
  outputs = { self, nixpkgs }:
    let
      archives = {
        x86_64-linux = { file = ./vramscope-@VERSION@-linux-x86_64.tar.gz; sha256 = "@SHA256_LINUX_X86_64@"; };
        aarch64-linux = { file = ./vramscope-@VERSION@-linux-aarch64.tar.gz; sha256 = "@SHA256_LINUX_AARCH64@"; };
        x86_64-darwin = { file = ./vramscope-@VERSION@-macos-x86_64.tar.gz; sha256 = "@SHA256_MACOS_X86_64@"; };
        aarch64-darwin = { file = ./vramscope-@VERSION@-macos-arm64.tar.gz; sha256 = "@SHA256_MACOS_ARM64@"; };
      };
    in {
      packages = builtins.mapAttrs (system: archive:
        let pkgs = nixpkgs.legacyPackages.${system}; in rec {
          default = vramscope;
          vramscope = pkgs.stdenvNoCC.mkDerivation {
            pname = "vramscope";
            version = "@VERSION@";
            src = archive.file;
            sourceRoot = ".";
            preUnpack = ''echo "${archive.sha256}  $src" | sha256sum -c'';
            installPhase = ''
              install -Dm755 vramscope $out/bin/vramscope
              install -Dm644 -t $out/share/vramscope LICENSE* *.cdx.json
            '';
            meta.license = pkgs.lib.licenses.asl20;
          };
        }) archives;
    };
}
