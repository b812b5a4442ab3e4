# A Homebrew formula. HOMEBREW_VRAMSCOPE_URL is where the archives of the release lie.
class Vramscope < Formula
  desc "What filled the GPU, why, what it should have been, and what to change"
  version "@VERSION@"
  license "Apache-2.0"
  base = ENV.fetch("HOMEBREW_VRAMSCOPE_URL", "file://#{__dir__}")

  on_macos do
    on_arm do
      url "#{base}/vramscope-@VERSION@-macos-arm64.tar.gz"
      sha256 "@SHA256_MACOS_ARM64@"
    end
    on_intel do
      url "#{base}/vramscope-@VERSION@-macos-x86_64.tar.gz"
      sha256 "@SHA256_MACOS_X86_64@"
    end
  end
  on_linux do
    on_arm do
      url "#{base}/vramscope-@VERSION@-linux-aarch64.tar.gz"
      sha256 "@SHA256_LINUX_AARCH64@"
    end
    on_intel do
      url "#{base}/vramscope-@VERSION@-linux-x86_64.tar.gz"
      sha256 "@SHA256_LINUX_X86_64@"
    end
  end

  def install
    bin.install "vramscope"
    (lib/"vramscope").install "libvramscope_device.so" if File.exist?("libvramscope_device.so")
    generate_completions_from_executable(bin/"vramscope", "completion")
    prefix.install Dir["LICENSE*"], Dir["*.cdx.json"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/vramscope --version")
    (testpath/"a.log").write "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total " \
                             "capacity of 79.15 GiB of which 1.00 GiB is free.\n"
    assert_match "Out of memory", shell_output("#{bin}/vramscope analyze -q a.log")
  end
end
