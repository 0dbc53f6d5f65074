// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/licenseclassifier/v2/assets"
)

// NoticesFile is the file with the licences of others' code, in the root of a checkout, in archives, and
// in images below /licenses.
const NoticesFile = "THIRD_PARTY_NOTICES.txt"

// accepted are the licences under which others' code may be in a program, by the classifier's names:
// SPDX's, but for BSD-0-Clause, which is 0BSD. All of them allow programs under another licence, and none
// asks for the source of the rest.
var accepted = []string{
	"Apache-2.0", "BSD-0-Clause", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "Unlicense", "Zlib",
}

// reviewed are texts that people have read because the classifier does not know them, by their names in
// part.
var reviewed = []string{
	"modernc.org/sqlite/LICENSE-SQLITE", // SQLite is in the public domain
	"modernc.org/memory/LICENSE-LOGO",   // about a picture, which no program contains
}

// notCode are licences of what is beside the code, and in no program.
var notCode = []string{"github.com/opencontainers/go-digest/LICENSE.docs"}

// empty are packages whose only file for browsers is empty: there is nothing to license.
var empty = []string{"npm: client-only"}

// inComments are npm packages that have code under a second licence, whose text is the comment with
// which one of their files begins.
var inComments = map[string]string{"npm: @bufbuild/protobuf": "dist/esm/wire/varint.js"}

// NoticeParams selects the programs that others' code is in.
type NoticeParams struct {
	// Root is the root of a checkout, in which the packages of the web UI are installed.
	Root string
	// Packages are the packages of programs, and Platforms what they are compiled for, as OS/ARCH.
	Packages, Platforms []string
}

// part is code of others that has texts of its own: a module, a folder of it, or an npm package.
type part struct {
	// name is the path of the module or folder, or the name of the npm package.
	name string
	// texts are the licences and notices, by the names of their files.
	texts map[string][]byte
}

// WriteNotices writes the licences and notices of all code of others that the programs contain on any
// of the platforms: the Go modules that are linked, folders in them with licences of their own, the
// standard library, and the packages that the web UI needs when it runs. BSD, MIT and Apache-2.0 ask
// for these texts in copies of a program. Each text is written once, below the names of what has it.
//
// It fails at code without a licence, and at a licence that is not among the accepted ones. The same
// modules and packages give the same bytes.
func WriteNotices(ctx context.Context, w io.Writer, p NoticeParams) error {
	linked, err := linkedParts(ctx, p)
	if err != nil {
		return err
	}
	web, err := webParts(p.Root)
	if err != nil {
		return err
	}
	return write(w, noticesHead, slices.Concat(linked, web))
}

// WebNoticesFile is the file, in the root of a checkout, with the licences of what browsers load. The
// web UI's build copies it, and the menu of the account leads to it.
const WebNoticesFile = "web/public/licenses.txt"

// WriteWebNotices is WriteNotices for the packages that the web UI needs when it runs, of which
// browsers load copies. root is the root of a checkout, in which they are installed.
func WriteWebNotices(w io.Writer, root string) error {
	parts, err := webParts(root)
	if err != nil {
		return err
	}
	return write(w, webHead, parts)
}

func write(w io.Writer, head string, parts []part) error {
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.name, b.name) })
	if err := accept(parts); err != nil {
		return err
	}
	_, err := w.Write(notices(head, parts))
	return err
}

// textFile matches the names of files with a licence, or with a notice that goes with one.
var textFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense|notice|patents)([.-][a-z0-9.-]+)?$`)

// isLicence reports whether a file of that name has a licence, and not only a notice.
func isLicence(name string) bool {
	lower := strings.ToLower(name)
	return !strings.HasPrefix(lower, "notice") && !strings.HasPrefix(lower, "patents")
}

// readTexts returns the texts in a folder, without the folders in it.
func readTexts(folder string) (map[string][]byte, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	texts := map[string][]byte{}
	for _, e := range entries {
		if !e.Type().IsRegular() || !textFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		texts[e.Name()] = content
	}
	return texts, nil
}

// linkedParts returns the standard library, and the modules and folders whose packages are linked.
func linkedParts(ctx context.Context, p NoticeParams) ([]part, error) {
	goroot, err := goOutput(ctx, p.Root, nil, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	folders := map[string]string{"the Go standard library": strings.TrimSpace(string(goroot))} // by the names of parts
	modules := map[string]bool{"the Go standard library": true}
	for _, platform := range p.Platforms {
		system, processor, _ := strings.Cut(platform, "/")
		env := []string{"GOOS=" + system, "GOARCH=" + processor, "CGO_ENABLED=0"}
		out, err := goOutput(ctx, p.Root, env, append([]string{"list", "-deps", "-json=ImportPath,Dir,Standard,Module"}, p.Packages...)...)
		if err != nil {
			return nil, err
		}
		packages, err := parseList(out)
		if err != nil {
			return nil, err
		}
		for _, l := range packages {
			if l.Standard || l.Module == nil || l.Module.Main {
				continue
			}
			modules[l.Module.Path] = true
			for folder := l.Dir; ; folder = filepath.Dir(folder) {
				within, err := filepath.Rel(l.Module.Dir, folder)
				if err != nil || !filepath.IsLocal(within) {
					return nil, errors.Join(fmt.Errorf("%s: %s is not in its module, %s", l.ImportPath, l.Dir, l.Module.Dir), err)
				}
				folders[strings.TrimSuffix(l.Module.Path+"/"+filepath.ToSlash(within), "/.")] = folder
				if folder == l.Module.Dir {
					break
				}
			}
		}
	}
	var parts []part
	for name, folder := range folders {
		texts, err := readTexts(folder)
		if err != nil {
			return nil, err
		}
		if len(texts) > 0 || modules[name] {
			parts = append(parts, part{name: name, texts: texts})
		}
	}
	return parts, nil
}

// webParts returns the packages that the web UI needs when it runs. A package of the Apache licence
// may refer to it by its name alone, and gets the text that Leat itself has.
func webParts(root string) ([]part, error) {
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(uiLock)))
	if err != nil {
		return nil, err
	}
	packages, err := runtimePackages(content)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", uiLock, err)
	}
	own, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	var parts []part // a package may be there in several versions
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		c := packages[folder]
		name := "npm: " + c.Name
		if slices.Contains(empty, name) {
			continue
		}
		folder = filepath.Join(root, "web", filepath.FromSlash(folder))
		texts, err := readTexts(folder)
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("the package %s is not installed: make generate installs it", c.Name)
		} else if err != nil {
			return nil, err
		}
		file, isInComment := inComments[name]
		if isInComment {
			source, err := os.ReadFile(filepath.Join(folder, file))
			if err != nil {
				return nil, err
			}
			texts["LICENSE of "+file] = firstComment(source)
		}
		if named := c.Licenses[0].License; len(texts) == 0 && named != nil && named.ID == "Apache-2.0" || isInComment {
			texts["LICENSE"] = own
		}
		parts = append(parts, part{name: name, texts: texts})
	}
	return parts, nil
}

// firstComment returns the text of the lines with // at the beginning of a source file.
func firstComment(source []byte) []byte {
	var text []byte
	for line := range bytes.Lines(source) {
		comment, isComment := bytes.CutPrefix(line, []byte("//"))
		if !isComment {
			break
		}
		text = append(text, bytes.TrimPrefix(comment, []byte(" "))...)
	}
	return text
}

// classifier knows the licences of SPDX's list. To build one takes a second.
var classifier = sync.OnceValues(assets.DefaultClassifier)

// accept fails if a part has no licence, or one that is not accepted.
func accept(parts []part) error {
	spdx, err := classifier()
	if err != nil {
		return err
	}
	known := map[string][]string{} // licences by texts
	licencesOf := func(text []byte) []string {
		found, isKnown := known[string(text)]
		if !isKnown {
			for _, m := range spdx.Match(text).Matches {
				if m.MatchType == "License" {
					found = append(found, m.Name)
				}
			}
			known[string(text)] = found
		}
		return found
	}
	var refused []error
	for _, p := range parts {
		isLicensed := false
		for file, text := range p.texts {
			name := p.name + "/" + file
			if !isLicence(file) || slices.Contains(notCode, name) {
				continue
			}
			isLicensed = true
			if slices.Contains(reviewed, name) {
				continue
			}
			licences := licencesOf(text)
			if len(licences) == 0 {
				refused = append(refused, fmt.Errorf("%s: its licence is not known: read it, and list it as reviewed", name))
			}
			for _, licence := range licences {
				if !slices.Contains(accepted, licence) {
					refused = append(refused, fmt.Errorf("%s: the licence %s is not accepted", name, licence))
				}
			}
		}
		if !isLicensed {
			refused = append(refused, fmt.Errorf("%s: it has no licence, so no program may contain it", p.name))
		}
	}
	return errors.Join(refused...)
}

// noticesHead begins the file of notices.
const noticesHead = `Programs of Leat contain code of others, under the licences below. Leat itself is under the Apache License 2.0.

The inventory of each program, and "go version -m PROGRAM", list the versions in it. The source of a Go module is at its
path, and at https://proxy.golang.org. That of an npm package is at https://registry.npmjs.org.

make notices writes this file.
`

const webHead = `This page contains code of others, under the licences below. Leat itself is under the Apache License 2.0. The source of
each package is at https://registry.npmjs.org.

make notices writes this file.
`

// notices returns the head and the texts of the parts, each once, below the names of all that have it. Parts are
// sorted by name.
func notices(head string, parts []part) []byte {
	var texts []string // in the order of the first part with each
	owners := map[string][]string{}
	for _, p := range parts {
		for _, file := range slices.Sorted(maps.Keys(p.texts)) {
			if slices.Contains(notCode, p.name+"/"+file) {
				continue
			}
			text := plain(p.texts[file])
			if _, isKnown := owners[text]; !isKnown {
				texts = append(texts, text)
			}
			owners[text] = append(owners[text], p.name)
		}
	}
	var out bytes.Buffer
	out.WriteString(head)
	for _, text := range texts {
		fmt.Fprintf(&out, "\n%s\n%s\n%s\n\n%s", strings.Repeat("=", 80), strings.Join(slices.Compact(owners[text]), "\n"), strings.Repeat("-", 80), text)
	}
	return out.Bytes()
}

// plain returns a text with the ends of lines of Unix, without blanks at the ends of lines, and
// without empty lines around it.
func plain(text []byte) string {
	var out strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\r\n", "\n")) {
		out.WriteString(strings.TrimRight(line, " \t\n") + "\n")
	}
	return strings.Trim(out.String(), "\n\ufeff") + "\n"
}
