// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command leat-release makes a release; see package release. It runs at the root of the checkout.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/leatdev/leat/test/release"
)

const usage = `leat-release makes a release of the commit that is checked out.

  leat-release [FLAGS] VERSION        such as v0.1.0 or v0.1.0-rc.1

It compiles for every platform, which takes long the first time. Everything has to be committed, and
the commit has the tag of the version or none. docs/operations/releases.md says what a release holds.

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "leat-release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("leat-release", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	folder := flags.String("out", "dist", "folder of the release")
	programs := flags.String("programs", "", "make only these of the programs "+strings.Join(release.Programs(), ",")+"; to try something")
	platforms := flags.String("platforms", "", "make only for these platforms, such as linux/amd64,linux/arm64; to try something")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("got %d versions, want one: make release VERSION=v0.1.0-rc.1, or see leat-release --help", flags.NArg())
	}
	version, err := release.ParseVersion(flags.Arg(0))
	if err != nil {
		return err
	}
	report := func(line string) { fmt.Fprintln(out, "==> "+line) }
	params := release.Params{Top: ".", Out: *folder, Version: version, Programs: list(*programs), Report: report}
	for _, text := range list(*platforms) {
		system, arch, _ := strings.Cut(text, "/")
		params.Platforms = append(params.Platforms, release.Platform{OS: system, Arch: arch})
	}
	err = release.Make(ctx, params)
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted; " + *folder + " is as it was before")
	}
	if err != nil {
		return err
	}
	report("the release is in " + *folder)
	return nil
}

// list returns the parts of a list with commas. An empty text has none.
func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}
