// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/manifest"
)

// TestSecEncryptedFilesOfManyMACs commits files that all hold the MACs of many objects, so that
// each object causes a reading of all files. The reading for all objects of a tree is bounded
// together.
func TestSecEncryptedFilesOfManyMACs(t *testing.T) {
	t.Parallel()
	const objects, files = 40, 8
	var macs []string
	content := &strings.Builder{}
	for i := range objects {
		macs = append(macs, fmt.Sprintf("ENC[AES256_GCM,data:mac-%d,", i))
		fmt.Fprintf(content, "# %s\n", macs[i])
	}
	content.WriteString(strings.Repeat("# "+strings.Repeat("x", 1<<16)+"\n", 8))
	tree := map[string][]byte{}
	for i := range files {
		tree[fmt.Sprintf("%d.yaml", i)] = []byte(content.String() + "a: 1\n")
	}
	if err := manifest.OpenFiles(render.NewFiles(tree), macs[:1]...); err == nil || strings.Contains(err.Error(), "were read") {
		t.Errorf("one object: got %v, want that the files are not of sops", err)
	}
	err := manifest.OpenFiles(render.NewFiles(tree), macs...)
	if err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes were read") {
		t.Errorf("got %v, want that too much was read", err)
	}
}
