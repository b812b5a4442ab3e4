package run

import (
	"encoding/csv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// monitor is nvidia-smi, sampling beside the program.
type monitor struct {
	commands []*exec.Cmd
	files    []*os.File
}

// samples are the files and what nvidia-smi is asked for them, every two seconds.
var samples = []struct{ file, query string }{
	{gpuFile, "--query-gpu=timestamp,index,name,memory.used,memory.total,driver_version"},
	{appsFile, "--query-compute-apps=timestamp,gpu_uuid,pid,process_name,used_gpu_memory"},
}

// startMonitor samples where nvidia-smi is there.
func startMonitor(dir string, record *Record) *monitor {
	m := &monitor{}
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		record.Notes = append(record.Notes, "no nvidia-smi here: nothing is known of other processes on the GPU")
		return m
	}
	for _, s := range samples {
		f, err := os.Create(filepath.Join(dir, s.file))
		if err != nil {
			continue
		}
		m.files = append(m.files, f)
		cmd := exec.Command(path, s.query, "--format=csv", "-l", "2")
		cmd.Stdout = f
		apart(cmd)
		if cmd.Start() == nil {
			m.commands = append(m.commands, cmd)
		}
	}
	return m
}

// stop ends the sampling, and takes files away that say nothing.
func (m *monitor) stop() {
	for _, cmd := range m.commands {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	for _, f := range m.files {
		info, err := f.Stat()
		f.Close()
		if err == nil && (info.Size() == 0 || !hasRows(f.Name())) {
			os.Remove(f.Name())
		}
	}
}

// driver is the version that the readings name, nil without any.
func driver(dir string) *string {
	f, err := os.Open(filepath.Join(dir, gpuFile))
	if err != nil {
		return nil
	}
	defer f.Close()
	rows := csv.NewReader(io.LimitReader(f, 4096))
	rows.TrimLeadingSpace = true
	head, err := rows.Read()
	row, err2 := rows.Read()
	i := slices.Index(head, "driver_version")
	if err != nil || err2 != nil || i < 0 || row[i] == "" {
		return nil
	}
	return &row[i]
}

// hasRows reports whether there is more than a header in a file.
func hasRows(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4096)
	n, _ := f.Read(head)
	_, rest, _ := strings.Cut(string(head[:n]), "\n")
	return strings.TrimSpace(rest) != ""
}
