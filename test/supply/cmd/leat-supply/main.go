// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command leat-supply checks what Leat is built from; see package supply.
//
//	leat-supply vulncheck [DATABASE]   checks the modules of every program against advisories
//	leat-supply sbom FOLDER PROGRAM…   writes PROGRAM.cdx.json into the folder
//	leat-supply pin FILE…              writes the digests of images into Dockerfiles, Compose files and manifests
//	leat-supply authorities FILE       writes the certificate authorities that images trust
//	leat-supply notices                writes the licences of others' code that programs contain
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/leatdev/leat/test/release"
	"github.com/leatdev/leat/test/supply"
)

// advisories is the folder of the repository's own advisories, relative to its root.
const advisories = "test/supply/advisories"

// localDatabase is the default database of advisories, relative to the root.
const localDatabase = ".vulndb"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "leat-supply:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	switch {
	case (len(args) == 1 || len(args) == 2) && args[0] == "vulncheck":
		return vulncheck(ctx, out, strings.Join(args[1:], ""))
	case len(args) > 2 && args[0] == "sbom":
		return sbom(out, args[1], args[2:])
	case len(args) > 1 && args[0] == "pin":
		return pin(ctx, out, args[1:])
	case len(args) > 1 && args[0] == "pinned":
		return pinned(out, args[1:])
	case len(args) == 2 && args[0] == "authorities":
		return authorities(args[1])
	case len(args) == 1 && args[0] == "notices":
		return notices(ctx)
	}
	return errors.New("usage: leat-supply vulncheck [DATABASE] | sbom FOLDER PROGRAM… | pin FILE… | pinned FILE… | authorities FILE | notices")
}

// vulncheck fails if an advisory applies. An empty location means localDatabase, if it exists.
func vulncheck(ctx context.Context, out io.Writer, location string) error {
	modules, err := supply.Modules(ctx, ".", supply.Programs()...)
	if err != nil {
		return err
	}
	databases := []string{advisories}
	if location == "" {
		if _, err := os.Stat(localDatabase); err == nil {
			location = localDatabase
		}
	}
	if location != "" {
		databases = append(databases, location)
	}
	found := 0
	for _, database := range databases {
		known, err := supply.ReadDatabase(database)
		if err != nil {
			return err
		}
		findings := supply.Check(known, modules)
		for _, f := range findings {
			line := fmt.Sprintf("%s: %s %s: %s", f.ID, f.Module.Path, f.Module.Version, f.Summary)
			if len(f.Packages) > 0 {
				line += " (in " + strings.Join(f.Packages, ", ") + ")"
			}
			if f.Fixed != "" {
				line += "; fixed in " + f.Fixed
			}
			say(out, line)
		}
		say(out, fmt.Sprintf("%s: %d advisories, %d modules, %d findings", database, len(known), len(modules), len(findings)))
		found += len(findings)
	}
	if location == "" {
		say(out, "NOT CHECKED against the Go vulnerability database: set LEAT_VULNDB to a copy of https://vuln.go.dev/vulndb.zip, or unpack one into "+localDatabase)
	}
	if found > 0 {
		return fmt.Errorf("%d advisories apply", found)
	}
	return nil
}

// say prints a line. It ignores a failure to print.
func say(out io.Writer, line string) { _, _ = fmt.Fprintln(out, line) }

func sbom(out io.Writer, folder string, programs []string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	ui, err := supply.ReadWebUI(".")
	if err != nil {
		return err
	}
	for _, program := range programs {
		f, err := os.Create(filepath.Join(folder, filepath.Base(program)+".cdx.json"))
		if err != nil {
			return err
		}
		if err := errors.Join(supply.WriteSBOM(f, program, "", ui), f.Close()); err != nil {
			return err
		}
		say(out, f.Name())
	}
	return nil
}

func authorities(file string) error {
	content, err := supply.Authorities()
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// notices writes the notices of all programs of a release and of the demo repository's image, and those of the web UI.
func notices(ctx context.Context) error {
	var text bytes.Buffer
	params := supply.NoticeParams{Root: ".", Packages: append(supply.Programs(), "./cli/cmd/leat-git")}
	for _, platform := range release.Platforms() {
		params.Platforms = append(params.Platforms, platform.String())
	}
	if err := supply.WriteNotices(ctx, &text, params); err != nil {
		return err
	}
	if err := os.WriteFile(supply.NoticesFile, text.Bytes(), 0o644); err != nil {
		return err
	}
	text.Reset()
	if err := supply.WriteWebNotices(&text, "."); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(supply.WebNoticesFile), 0o755); err != nil {
		return err
	}
	return os.WriteFile(supply.WebNoticesFile, text.Bytes(), 0o644)
}

// pinned fails if a file names an image without a digest.
func pinned(out io.Writer, files []string) error {
	own, err := supply.ReadOwn(".")
	if err != nil {
		return err
	}
	count := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		images, err := supply.Unpinned(string(content), own)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, image := range images {
			say(out, fmt.Sprintf("%s: %s has no digest", file, image))
		}
		count += len(images)
	}
	if count > 0 {
		return fmt.Errorf("%d images have no digest; write them with make pin", count)
	}
	return nil
}

func pin(ctx context.Context, out io.Writer, files []string) error {
	own, err := supply.ReadOwn(".")
	if err != nil {
		return err
	}
	registries := supply.Registries{Client: &http.Client{Timeout: time.Minute}, Scheme: "https", Own: own}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		pinned, images, err := registries.Pin(ctx, string(content))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, image := range images {
			say(out, fmt.Sprintf("%s: %s", file, image))
		}
		if pinned == string(content) {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(pinned), info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}
