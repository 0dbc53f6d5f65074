// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/leatdev/leat/internal/contract/bundle"
)

// manifests is a folder of many small files, the usual content of a bundle.
func manifests() []item {
	items := make([]item, 4000)
	for n := range items {
		items[n] = item{
			name:    fmt.Sprintf("apps/team-%02d/service-%04d/deployment.yaml", n/100, n),
			content: fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: service-%d\n%01500d\n", n, n),
		}
	}
	return items
}

func BenchmarkWrite(b *testing.B) {
	items := manifests()
	b.ReportAllocs()
	for b.Loop() {
		compressed, err := bundle.Compress(io.Discard)
		if err != nil {
			b.Fatal(err)
		}
		if err := writeTo(compressed, bundle.Limits{}, items...); err != nil {
			b.Fatal(err)
		}
		_ = compressed.Close()
	}
}

func BenchmarkRead(b *testing.B) {
	stored := compress(b, write(b, manifests()...))
	b.ReportAllocs()
	for b.Loop() {
		tarred, err := bundle.Decompress(bytes.NewReader(stored), bundle.DefaultLimits().Bytes)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := read(tarred, bundle.Limits{}); err != nil {
			b.Fatal(err)
		}
		_ = tarred.Close()
	}
}
