package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/internal/apart"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/view"
)

// pageFlags are what a page of view is made with.
func (f *analyzeFlags) pageFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	numberFlag(cmd, &f.device, "device", "only the device with this `ordinal`")
	flags.StringVar(&f.gpu, "gpu", "", "the GPU's `NAME` or size, \"H100 80GB\" or 80GiB, where the recording doesn't tell")
	readingFlags(cmd, &f.partial, &f.redact, &f.maxMemory)
	f.at = "peak"
}

func newView() *cobra.Command {
	f, quiet := analyzeFlags{}, false
	cmd := &cobra.Command{
		Use:   "view FILE…|DIR",
		Short: "The interactive page of recordings of any size, in the browser",
		Long: `View serves the page of "analyze -o page.html" from this machine, with every
allocation of recordings that a single file can't hold. Each input is a page of
its own, a run's directory is one; further files can be opened or dropped there.

It listens on 127.0.0.1 alone, on a free port; the address holds a token that
nobody can guess. Without a browser here, it prints how to come from another
machine by SSH. Ctrl-C ends it and removes what it made.`,
		Example: `  vramscope view snapshot.pickle
  vramscope view before.pickle after.pickle
  vramscope view run42/ --no-browser`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("view: no input\n  Give a memory snapshot or a run's directory")
			}
			for _, a := range args {
				if a == "-" {
					return errors.New("view: standard input can't be read again: name a file")
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			return runView(ctx, cmd, args, f.maxMemory, quiet)
		},
	}
	f.pageFlags(cmd)
	cmd.Flags().BoolVar(&quiet, "no-browser", false, "open no browser, only print the address")
	return cmd
}

// runView serves until the context ends.
func runView(ctx context.Context, cmd *cobra.Command, args []string, maxMemory string, quiet bool) (err error) {
	limit, err := memoryLimit(maxMemory)
	if err != nil {
		return err
	}
	if limit == 0 { // the machine doesn't say what it has
		limit = 16 << 30
	}
	s, err := view.New(view.Options{Inputs: args, MaxUpload: limit, Make: maker(cmd)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	if err := s.First(); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	s.Say(cmd.OutOrStdout(), !quiet && onTerminal(cmd.OutOrStdout()) && s.OpenBrowser())
	return <-served
}

// maker makes pages by this program in a process of its own, within --max-memory: what it
// took is given back with it, and no input ends the server.
func maker(cmd *cobra.Command) func(context.Context, string, string, bool) error {
	flags := flagsGiven(cmd, "no-browser")
	return func(ctx context.Context, input, folder string, uploaded bool) error {
		c, err := thisProgram(ctx, append(append([]string{"page", "--into", folder}, flags...), "--", input)...)
		if err != nil {
			return err
		}
		c.WaitDelay = time.Second
		if uploaded {
			c.Dir = folder
		}
		said := &apart.Head{Most: 8 << 10}
		c.Stderr = said
		if err := c.Run(); err != nil {
			return errors.New(cmp.Or(strings.TrimPrefix(string(bytes.TrimSpace(said.Bytes())), "vramscope: "), err.Error()))
		}
		return nil
	}
}

// newPage is what view runs to make a page.
func newPage() *cobra.Command {
	f, into := analyzeFlags{}, ""
	cmd := &cobra.Command{
		Use:    "page INPUT… --into DIR",
		Short:  "Make a page for view",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.served = true
			doc, err := f.document(cmd, args)
			if err != nil {
				return redactError(cmd, args, err)
			}
			store := func(name string, columns []byte) error {
				return os.WriteFile(filepath.Join(into, name), columns, 0o600)
			}
			page, err := os.OpenFile(filepath.Join(into, view.Page), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
			if err != nil {
				return err
			}
			return errors.Join(html.Served(page, doc, store), page.Close())
		},
	}
	f.pageFlags(cmd)
	cmd.Flags().StringVar(&into, "into", ".", "the `DIR` for the page and its columns")
	return cmd
}
