// Package web is the page: a server on the loopback address for one person, and the
// one file that --html writes.
//
// In: the flow of package floodmark, and records. Out: HTML, scripts and styles
// from files that are embedded as they were written, packed, and levels of detail that stay small
// for traces of any length. Under static, view holds what needs the server, record
// draws a record of each kind, trace a snapshot; the file is made of the last two.
//
// It fetches nothing from elsewhere, listens on no other address unless told to,
// and computes no figure of its own.
package web
