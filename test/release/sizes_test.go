// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/test/release"
)

// sizes is the page that has the size of each image.
const sizes = "docs/operations/releases.md"

// row is an image with its sizes for amd64 and for arm64.
var row = regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| ([0-9.]+) MB \\| ([0-9.]+) MB \\|$")

// statedSizes returns the sizes of images for the processor of this machine, in MB, by their programs.
func statedSizes(t *testing.T) map[string]float64 {
	t.Helper()
	column, isReleased := map[string]int{"amd64": 2, "arm64": 3}[runtime.GOARCH]
	if !isReleased {
		t.Fatalf("images are not released for %s", runtime.GOARCH)
	}
	page, err := os.ReadFile(filepath.Join(top, sizes))
	if err != nil {
		t.Fatal(err)
	}
	stated := map[string]float64{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		if stated[m[1]], err = strconv.ParseFloat(m[column], 64); err != nil {
			t.Fatal(err)
		}
	}
	return stated
}

// TestImagesHaveTheirStatedSizes makes the image of each program for the processor of this machine,
// and compares it with the page. The cause of a growth by a tenth is to be found before a node
// pulls it. The row of one that is a tenth smaller would let it grow back.
func TestImagesHaveTheirStatedSizes(t *testing.T) {
	t.Parallel()
	stated := statedSizes(t)
	if diff := cmp.Diff(release.Programs(), slices.Sorted(maps.Keys(stated))); diff != "" {
		t.Errorf("images in the table of %s (-want +got):\n%s", sizes, diff)
	}
	for _, name := range release.Programs() { // one after another: a linker takes all processors, and much memory
		size, err := release.ImageSize(t.Context(), top, name, release.Platform{OS: "linux", Arch: runtime.GOARCH})
		if err != nil {
			t.Fatal(err)
		}
		got, want := float64(size)/1e6, stated[name]
		if got > want*1.1 || got < want*0.9 {
			t.Errorf("the image of %s has %.1f MB for %s, and %s states %g MB: find out what changed it, or state its size there",
				name, got, runtime.GOARCH, sizes, want)
		}
	}
}
