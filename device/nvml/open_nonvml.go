//go:build !linux || !(amd64 || arm64) || nonvml

package nvml

import (
	"context"
	"errors"

	"floodmark/device"
)

// Open fails: this build loads no library.
func Open(context.Context) (device.Reader, error) {
	return nil, errors.New("this program was built without NVML, as the static build is")
}
