// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// pins are the modules of tools/kube that a control plane is built from. They hold no code, so a
// program that has them can build one without a checkout of Leat.
//
//go:embed pins
var pins embed.FS

// pinned returns the names of these modules.
func pinned() []string { return []string{"etcd", "kubernetes", "kwok"} }

// OwnSource returns a folder with the modules that this program has, which is a valid
// BuildParams.SourceDir. It is below the cache folder, which BuildParams.CacheDir describes.
func OwnSource(cacheDir string) (string, error) {
	cacheDir, err := cacheFolder(cacheDir)
	if err != nil {
		return "", err
	}
	files, sum := map[string][]byte{}, sha256.New()
	for _, module := range pinned() {
		for _, kind := range []string{"mod", "sum"} {
			content, err := pins.ReadFile("pins/" + module + "." + kind)
			if err != nil {
				return "", fmt.Errorf("read own pins: %w", err)
			}
			files[filepath.Join(module, "go."+kind)] = content
			_, _ = sum.Write(content) // a hash takes everything
		}
	}
	dir := filepath.Join(cacheDir, "source-"+hex.EncodeToString(sum.Sum(nil))[:12])
	if _, err := os.Stat(dir); err == nil {
		return dir, nil // complete, because it got its name last
	}
	if err := writeSource(cacheDir, dir, files); err != nil {
		return "", fmt.Errorf("write control plane source: %w", err)
	}
	return dir, nil
}

// writeSource makes a folder with the files, also if another process makes it at the same time.
func writeSource(cacheDir, dir string, files map[string][]byte) error {
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(cacheDir, "source-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	for name, content := range files {
		path := filepath.Join(work, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			return err
		}
	}
	err = os.Rename(work, dir)
	if _, statErr := os.Stat(dir); errors.Is(err, fs.ErrExist) && statErr == nil {
		return nil
	}
	return err
}
