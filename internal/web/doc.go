// Package web is the page: a server on the loopback address for one person.
//
// In: the flow of package floodmark, and records. Out: HTML, scripts and styles
// from files embedded as they were written, and levels of detail that stay small
// for traces of any length.
//
// It fetches nothing from elsewhere, listens on no other address unless told to,
// and computes no figure of its own.
package web
