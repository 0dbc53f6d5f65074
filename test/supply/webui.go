// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// uiModule is the module that embeds the web UI.
	uiModule = "github.com/leatdev/leat/services/distributor"
	// uiPage is in a checkout whose programs embed the web UI, and uiLock lists the packages of its build.
	uiPage = "services/distributor/internal/ui/dist/index.html"
	uiLock = "web/package-lock.json"
)

// WebUI is the web UI that programs embed. Programs without the distributor do not embed it, and the
// zero value stands for a checkout without a build of it.
type WebUI struct{ packages []component }

// ReadWebUI returns the web UI that programs embed which are compiled in the checkout at root. It reads
// the npm packages that the UI needs when it runs, including what these need, from the lock file. A
// build leaves out code that the UI does not call, so a package of the list may have none in it.
func ReadWebUI(root string) (WebUI, error) {
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(uiPage))); errors.Is(err, fs.ErrNotExist) {
		return WebUI{}, nil
	} else if err != nil {
		return WebUI{}, err
	}
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(uiLock)))
	if err != nil {
		return WebUI{}, err
	}
	packages, err := runtimePackages(content)
	if err != nil {
		return WebUI{}, fmt.Errorf("read %s: %w", uiLock, err)
	}
	components := slices.SortedFunc(maps.Values(packages), byRef)
	return WebUI{packages: slices.CompactFunc(components, func(a, b component) bool { return a.Ref == b.Ref })}, nil
}

// in returns the packages that are in a program with these modules.
func (u WebUI) in(modules []string) []component {
	if !slices.Contains(modules, uiModule) {
		return nil
	}
	return u.packages
}

// locked is a package in a lock file.
type locked struct {
	// Name is set where the folder has another name.
	Name      string
	Version   string
	License   string
	Integrity string
	// Dev is true for a package that tools alone need.
	Dev bool

	Dependencies         map[string]string
	OptionalDependencies map[string]string
	PeerDependencies     map[string]string
}

// lock is a lock file of npm. Its packages are known by their folders, and the project by "".
type lock struct{ Packages map[string]locked }

// runtimePackages returns the components of the packages that the project of a lock file needs when it
// runs, by their folders. The dependencies of the project itself that are optional are tools.
func runtimePackages(content []byte) (map[string]component, error) {
	var l lock
	if err := json.Unmarshal(content, &l); err != nil {
		return nil, err
	}
	reached := map[string]component{}
	var visit func(folder string, needs, mayNeed []string) error
	visit = func(folder string, needs, mayNeed []string) error {
		for i, name := range slices.Concat(needs, mayNeed) {
			found, ok := l.find(folder, name)
			if !ok && i < len(needs) {
				return fmt.Errorf("%q needs %s, which is not in the file", folder, name)
			}
			if _, isReached := reached[found]; !ok || isReached || l.Packages[found].Dev {
				continue
			}
			c, err := npmPackage(found, l.Packages[found])
			if err != nil {
				return err
			}
			reached[found] = c
			p := l.Packages[found]
			optional := slices.AppendSeq(slices.Collect(maps.Keys(p.OptionalDependencies)), maps.Keys(p.PeerDependencies))
			if err := visit(found, slices.Collect(maps.Keys(p.Dependencies)), optional); err != nil {
				return err
			}
		}
		return nil
	}
	if err := visit("", slices.Collect(maps.Keys(l.Packages[""].Dependencies)), nil); err != nil {
		return nil, err
	}
	return reached, nil
}

// find returns the folder of the package that a package in a folder gets by a name: the nearest one
// above it, as Node looks for it.
func (l lock) find(folder, name string) (string, bool) {
	for {
		found := strings.TrimPrefix(folder+"/node_modules/"+name, "/")
		if _, ok := l.Packages[found]; ok {
			return found, true
		}
		if folder == "" {
			return "", false
		}
		folder = strings.TrimSuffix(folder[:max(strings.LastIndex(folder, "node_modules/"), 0)], "/")
	}
}

// npmPackage returns the component of a package in a folder. Its hash is that of the archive in the
// registry.
func npmPackage(folder string, p locked) (component, error) {
	name := p.Name
	if name == "" {
		name = folder[strings.LastIndex(folder, "node_modules/")+len("node_modules/"):]
	}
	encoded, isSHA512 := strings.CutPrefix(p.Integrity, "sha512-")
	sum, err := base64.StdEncoding.DecodeString(encoded)
	if !isSHA512 || err != nil || p.Version == "" || p.License == "" {
		return component{}, fmt.Errorf("%s: got version %q, licence %q and checksum %q, want all three, and a SHA-512", folder, p.Version, p.License, p.Integrity)
	}
	purl := "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + p.Version
	return component{
		Type: "library", Ref: purl, Name: name, Version: p.Version, PURL: purl,
		Hashes: []hash{{Algorithm: "SHA-512", Content: hex.EncodeToString(sum)}}, Licenses: []licence{licenceOf(p.License)},
	}, nil
}

// licenceOf returns the licence of a package in SPDX's words: one licence, or an expression of several.
func licenceOf(text string) licence {
	if strings.ContainsAny(text, " (") {
		return licence{Expression: text}
	}
	return licence{License: &licenceID{ID: text}}
}
