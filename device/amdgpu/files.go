package amdgpu

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"floodmark/account"
	"floodmark/device"
)

// files are those of the driver, under a root.
type files struct{ root string }

const (
	drmFolder = "sys/class/drm"
	kfdFolder = "sys/class/kfd/kfd"
	// mostOfFile is what sysfs shows of a file at most, but for the lists of
	// properties.
	mostOfFile = 16 << 10
	mostNodes  = 1024
)

// text is what a file holds, without the space around it.
func (f files) text(parts ...string) (string, error) {
	path := filepath.Join(append([]string{f.root}, parts...)...)
	// Opened so that no pipe is waited for.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(file, mostOfFile))
	if err != nil {
		return "", err
	}
	if !utf8.Valid(data) {
		return "", fmt.Errorf("%s is not text", path)
	}
	return strings.TrimSpace(string(data)), nil
}

func (f files) stat(parts ...string) (os.FileInfo, error) {
	return os.Stat(filepath.Join(append([]string{f.root}, parts...)...))
}

// number is the count that a file holds.
func (f files) number(parts ...string) (uint64, error) {
	text, err := f.text(parts...)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("it holds %.40q", text)
	}
	return n, nil
}

// bytes is a count of bytes.
func (f files) bytes(scope account.Scope, parts ...string) account.Figure {
	counter := parts[len(parts)-1]
	p := account.Provenance{Origin: account.Observed, Scope: scope, Counter: counter}
	n, err := f.number(parts...)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return account.Unknown("amdgpu has no "+counter+" here", p)
	case errors.Is(err, os.ErrPermission):
		return account.Unknown(counter+" may not be read", p)
	case err != nil:
		return account.Unknown(counter+": "+err.Error(), p)
	}
	return device.Bytes(n, p)
}

// properties are the lines "name value" of a file.
func (f files) properties(parts ...string) map[string]uint64 {
	all := map[string]uint64{}
	text, err := f.text(parts...)
	if err != nil {
		return all
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64); err == nil {
			all[name] = n
		}
	}
	return all
}

// numbered lists the entries of a folder that are a prefix and a number, in the
// order of the numbers.
func (f files) numbered(prefix string, parts ...string) []int {
	entries, err := os.ReadDir(filepath.Join(append([]string{f.root}, parts...)...))
	if err != nil {
		return nil
	}
	var list []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		if n, err := strconv.Atoi(digits); ok && err == nil && n >= 0 && strconv.Itoa(n) == digits {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list[:min(len(list), mostNodes)]
}
