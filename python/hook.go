// Package python has the sources of what `vramscope run` puts into a program.
//
// They are those of the wheel: a binary that was built without one has them, too.
package python

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
)

//go:embed vramscope/__init__.py vramscope/_hook/*.py hook/sitecustomize.py
var sources embed.FS

// packageFile says the version.
const packageFile = "vramscope/__init__.py"

var versionLine = regexp.MustCompile(`(?m)^__version__ = "([0-9a-z.]+)"$`)

// Names in the folder that PYTHONPATH points to. PyTorch from 2.5 on calls the entry point
// of the dist-info folder, which needs nothing else; sitecustomize is for older ones.
// The folder has the name and version of what it is a part of, as `pip freeze` prints them.
const (
	hookPackage = "vramscope_hook"
	metadata    = "Metadata-Version: 2.1\nName: vramscope\nVersion: %s\nSummary: records what fills the GPU\n"
	entryPoints = "[torch.backends]\nvramscope = vramscope_hook:start\n"
)

// WriteHook lays what records a program into a folder, which then goes first on PYTHONPATH.
func WriteHook(folder string) error {
	about, err := sources.ReadFile(packageFile)
	version := versionLine.FindSubmatch(about)
	if err != nil || version == nil {
		return errors.Join(err, errors.New(packageFile+" says no __version__"))
	}
	info := fmt.Sprintf("vramscope-%s.dist-info", version[1])
	files := map[string][]byte{
		path.Join(info, "METADATA"):         fmt.Appendf(nil, metadata, version[1]),
		path.Join(info, "entry_points.txt"): []byte(entryPoints),
	}
	err = fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == packageFile {
			return err
		}
		text, err := sources.ReadFile(name)
		if err != nil {
			return err
		}
		to := path.Base(name)
		if path.Dir(name) == "vramscope/_hook" {
			to = path.Join(hookPackage, to)
		}
		files[to] = text
		return nil
	})
	for name, text := range files {
		to := filepath.Join(folder, filepath.FromSlash(name))
		err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, text, 0o600))
	}
	if err != nil {
		return fmt.Errorf("%s: the recorder can't be written: %w", folder, err)
	}
	return nil
}

// Visit is what a running program is made to run, with six texts in it: the package's name, its folder, the run's
// directory, the options, what to do, and the file for the answer. What it imports is gone again behind it.
const Visit = `def _visit(name, place, folder, options, what, answer):
    import importlib.util, os, sys
    try:
        package = sys.modules.get(name)
        if package is None:
            spec = importlib.util.spec_from_file_location(
                name, os.path.join(place, "__init__.py"), submodule_search_locations=[place])
            package = importlib.util.module_from_spec(spec)
            sys.modules[name] = package
            before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
            try:
                spec.loader.exec_module(package)
                importlib.import_module(name + ".attached")
            finally:
                sys.dont_write_bytecode = before
        sys.modules[name + ".attached"].visit(package, folder, options, what, answer)
    except BaseException as e:
        with open(answer + ".tmp", "w") as f:
            f.write('{"done": false, "why": "the recorder does not start: %%s"}' %% type(e).__name__)
        os.replace(answer + ".tmp", answer)


_visit(%s, %s, %s, %s, %s, %s)
`
