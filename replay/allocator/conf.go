package allocator

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// noEffect are options that don't change where blocks lie.
var noEffect = []string{"release_lock_on_cudamalloc", "release_lock_on_hipmalloc", "pinned_use_cuda_host_register",
	"pinned_use_hip_host_register", "pinned_num_register_threads", "pinned_use_background_threads",
	"pinned_reserve_segment_size_mb", "graph_capture_record_stream_reuse", "throw_on_cudamalloc_oom"}

// maxConf bounds the text of the settings, in bytes.
const maxConf = 4096

// options set what an option of PYTORCH_CUDA_ALLOC_CONF says.
var options = map[string]func(s *Settings, value string) error{
	"expandable_segments": func(s *Settings, v string) (err error) {
		s.Expandable, err = parseBool(v)
		return err
	},
	"max_split_size_mb": func(s *Settings, v string) (err error) {
		s.MaxSplit, err = parseMB(v)
		return err
	},
	"max_non_split_rounding_mb": func(s *Settings, v string) (err error) {
		s.MaxNonSplitRounding, err = parseMB(v)
		return err
	},
	"large_segment_size_mb": func(s *Settings, v string) (err error) {
		if s.LargeSegment, err = parseMB(v); err == nil && s.LargeSegment <= minLarge {
			err = fmt.Errorf("must be more than 10")
		}
		return err
	},
	"garbage_collection_threshold": func(s *Settings, v string) (err error) {
		s.GCThreshold, err = parseShare(v, false)
		return err
	},
	"per_process_memory_fraction": func(s *Settings, v string) (err error) {
		if s.Fraction, err = parseShare(v, true); s.Fraction == 1 {
			s.Fraction = 0
		}
		return err
	},
	"roundup_power2_divisions": func(s *Settings, v string) (err error) {
		s.Divisions, err = parseDivisions(v)
		return err
	},
	"backend": func(_ *Settings, v string) error {
		if v != "native" {
			return fmt.Errorf("another allocator, of which this tool knows nothing")
		}
		return nil
	},
}

// ParseConf reads the syntax of PYTORCH_CUDA_ALLOC_CONF. Notes name options
// that are right but change nothing here.
func ParseConf(text string) (Settings, []string, error) {
	s := Defaults()
	var notes []string
	if len(text) > maxConf {
		return s, nil, fmt.Errorf("settings of %d bytes: more than %d", len(text), maxConf)
	}
	items, err := splitConf(text)
	if err != nil {
		return s, nil, err
	}
	s.MaxNonSplitRounding = 0 // not set
	for _, item := range items {
		key, value, ok := strings.Cut(item, ":")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || key == "" || value == "" {
			return s, nil, fmt.Errorf("%q is not option:value", item)
		}
		if set := options[key]; set != nil {
			if err := set(&s, value); err != nil {
				return s, nil, fmt.Errorf("%s:%s: %w", key, value, err)
			}
			continue
		}
		if !slices.Contains(noEffect, key) {
			return s, nil, fmt.Errorf("no option %q of PYTORCH_CUDA_ALLOC_CONF is known", key)
		}
		notes = append(notes, key+" doesn't change where blocks lie")
	}
	if s.MaxNonSplitRounding == 0 {
		s.MaxNonSplitRounding = s.LargeSegment
	}
	if s.MaxSplit > 0 && s.MaxSplit < s.LargeSegment {
		return s, nil, fmt.Errorf("max_split_size_mb:%d: PyTorch wants at least %d", s.MaxSplit/mib, s.LargeSegment/mib)
	}
	if s.GCThreshold > 0 && s.Fraction == 0 {
		notes = append(notes, "garbage_collection_threshold acts only under a memory fraction")
	}
	s.text = strings.TrimSpace(text)
	return s, notes, nil
}

// splitConf cuts at commas that are not within brackets.
func splitConf(text string) ([]string, error) {
	var items []string
	depth, from := 0, 0
	for i := 0; i <= len(text); i++ {
		switch {
		case i == len(text) || text[i] == ',' && depth == 0:
			if item := strings.TrimSpace(text[from:i]); item != "" {
				items = append(items, item)
			}
			from = i + 1
		case text[i] == '[':
			depth++
		case text[i] == ']':
			depth--
		}
		if depth < 0 || depth > 1 {
			break
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("the brackets of %q don't match", text)
	}
	return items, nil
}

func parseBool(v string) (bool, error) {
	switch v {
	case "True":
		return true, nil
	case "False":
		return false, nil
	}
	return false, fmt.Errorf("must be True or False")
}

func parseMB(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("must be a number of MiB")
	}
	return n * mib, nil
}

func parseShare(v string, one bool) (float64, error) {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f > 0) || f > 1 || f == 1 && !one {
		return 0, fmt.Errorf("must be a share between 0 and 1")
	}
	return f, nil
}

func validDivisions(n int64) bool { return n >= 0 && n <= 1<<20 && bits.OnesCount64(uint64(n)) <= 1 }

// parseDivisions reads a number for all sizes, or a list such as
// [256:1,512:2,>:8] whose keys are MiB.
func parseDivisions(v string) ([16]int64, error) {
	var table [16]int64
	list, ok := strings.CutPrefix(v, "[")
	if !ok {
		n, err := parseDivision(v)
		fill(table[:], n)
		return table, err
	}
	last := -1
	for i, pair := range strings.Split(strings.TrimSuffix(list, "]"), ",") {
		key, value, ok := strings.Cut(pair, ":")
		if !ok {
			return table, fmt.Errorf("%q is not size:divisions", pair)
		}
		n, err := parseDivision(value)
		if err != nil {
			return table, err
		}
		if key = strings.TrimSpace(key); key == ">" {
			fill(table[last+1:], n)
			continue
		}
		size, err := strconv.ParseInt(key, 10, 32)
		if err != nil || size <= 0 || size&(size-1) != 0 {
			return table, fmt.Errorf("sizes must be powers of two in MiB")
		}
		last = min(bits.Len64(uint64(size))-1, len(table)-1)
		table[last] = n
		if i == 0 { // the first also stands for all that is smaller
			fill(table[:last], n)
		}
	}
	return table, nil
}

func parseDivision(v string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 32)
	if err != nil || n == 0 || !validDivisions(n) {
		return 0, fmt.Errorf("divisions must be a power of two")
	}
	return n, nil
}

func fill(table []int64, n int64) {
	for i := range table {
		table[i] = n
	}
}
